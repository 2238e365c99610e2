// Finds what cannot be seen of the dashboard: [number of elements examined, texts saying what is wrong with some].
(dashboard) => {
    const READ = "h4, .headrace-legend li, .headrace-text, .headrace-events span, .headrace-state, .headrace-badge, "
        + ".headrace-chip, .headrace-number, .headrace-message, .headrace-code, .headrace-note, .widget-label, .widget-readout, "
        + ".headrace-rate > .widget-html";
    const USED = "button, select, input, .noUi-base, summary";
    const found = [];
    const name = (e) => `${e.tagName.toLowerCase()}.${[...e.classList].slice(-1)} "${(e.textContent || e.value || "").trim().slice(0, 40)}"`;
    const place = (e) => e.getBoundingClientRect();
    const isSeen = (e) => { const r = place(e); return r.width > 0.5 && r.height > 0.5 && getComputedStyle(e).visibility !== "hidden"; };
    const isWithin = (r, of) => r.left >= of.left - 1.5 && r.right <= of.right + 1.5 && r.top >= of.top - 1.5 && r.bottom <= of.bottom + 1.5;
    const textOf = (e) => { const range = document.createRange(); range.selectNodeContents(e); return range.getBoundingClientRect(); };

    const all = [...dashboard.querySelectorAll(`${READ}, ${USED}`)]
        .filter((e) => isSeen(e) && !e.closest(".headrace-scroll") && !e.closest(".bk-Tooltip"));
    const whole = place(dashboard);
    for (const e of all) {
        if (!isWithin(place(e), whole)) found.push(`outside the dashboard: ${name(e)}`);
        const frame = e.closest(".headrace-events, .headrace-panel");
        if (frame && !isWithin(textOf(e), place(frame))) found.push(`outside its panel: ${name(e)}`);
        const hides = getComputedStyle(e).overflowX !== "visible";
        if (hides && e.scrollWidth > e.clientWidth + 1) found.push(`cut off: ${name(e)}`);
        if (e.scrollHeight > e.clientHeight + 3 && hides && !e.matches("input, select")) found.push(`cut off below: ${name(e)}`);
    }
    for (const [i, a] of all.entries()) for (const b of all.slice(i + 1)) {
        if (a.contains(b) || b.contains(a)) continue;
        const p = place(a), q = place(b);
        const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left);
        const high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
        if (wide > 1.5 && high > 1.5) found.push(`one over the other: ${name(a)} and ${name(b)}`);
    }
    for (const picture of [...dashboard.querySelectorAll(".headrace-graph")].filter(isSeen)) {
        const svg = picture.querySelector("svg");
        if (svg && picture.scrollWidth > picture.clientWidth + 1) found.push(`cut off: picture "${svg.getAttribute("aria-label")}"`);
    }
    for (const node of dashboard.querySelectorAll(".headrace-node")) {
        const frame = place(node.querySelector("rect"));
        for (const text of node.querySelectorAll("text"))
            if (isSeen(text) && !isWithin(place(text), frame)) found.push(`outside its box: "${text.textContent}"`);
    }
    const panels = [...dashboard.querySelectorAll(".headrace-panel")].filter(isSeen);
    const pen = document.createElement("canvas").getContext("2d");
    for (const view of window.Bokeh.index.roots) {
        const panel = panels.find((one) => one.contains(view.el));
        if (!panel || !view.frame) continue;
        const { width, height } = view.bbox;
        const frame = view.frame.bbox;
        const over = view.model.below[0]?.axis_label ?? "time";
        for (const label of panel.querySelectorAll(".headrace-events span"))
            if (place(label).left < place(view.el).left + frame.left - 1.5) found.push(`label of a change over an axis: "${label.textContent}"`);
        if (panel.querySelector(".headrace-events span") && !over.startsWith("time")) found.push(`label of a change over ${over}`);
        for (const [side, axes] of [["x", view.model.below], ["y", view.model.left]]) for (const axis of axes) {
            if (!axis.axis_label) continue;
            pen.font = `${axis.axis_label_text_font_size} ${axis.axis_label_text_font}`;
            const half = pen.measureText(axis.axis_label).width / 2;
            const [middle, size] = side === "x" ? [(frame.left + frame.right) / 2, width] : [(frame.top + frame.bottom) / 2, height];
            if (middle - half < -1 || middle + half > size + 1) found.push(`axis label cut off: "${axis.axis_label}"`);
        }
        for (const axis of view.axis_views.filter((one) => one.model.major_label_text_font_size && one.dimension === 1)) {
            const ticks = [...axis.tick_coords.major[1]].map((y) => view.frame.y_scale.compute(y))
                .filter((y) => y >= frame.top && y <= frame.bottom).sort((a, b) => a - b);
            const font = parseFloat(axis.model.major_label_text_font_size);
            const near = ticks.findIndex((y, i) => i > 0 && y - ticks[i - 1] < 0.8 * font);
            if (near >= 0) found.push(`ticks over each other in the plot of ${panel.dataset.panel}`);
        }
        for (const axis of view.axis_views.filter((one) => one.model.major_label_text_font_size && one.dimension === 0)) {
            const values = [...axis.tick_coords.major[0]];
            pen.font = `${axis.model.major_label_text_font_size} ${axis.model.major_label_text_font}`;
            const words = [...axis.compute_labels(values).items].map(({ text }, i) => {
                const half = pen.measureText(text ?? "").width / 2, x = view.frame.x_scale.compute(values[i]);
                return [x - half, x + half];
            }).filter(([from, to]) => from + to >= 2 * frame.left - 1 && from + to <= 2 * frame.right + 1).sort((a, b) => a[0] - b[0]);
            if (words.some(([from], i) => i > 0 && from - words[i - 1][1] < 2))
                found.push(`names of ticks over each other in the plot of ${panel.dataset.panel}`);
        }
        if (frame.width < 60 || frame.height < 40) found.push(`no room for the plot of ${panel.dataset.panel}: ${frame.width} x ${frame.height}`);
    }
    return [all.length, [...new Set(found)]];
}
