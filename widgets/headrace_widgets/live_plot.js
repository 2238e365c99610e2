// Shows the Bokeh figures of one document, each in a labelled section of a grid, and swaps their columns.
//
// The kernel sends one `frame` per update: float32 blocks (one per data source), axis ranges, texts; and from time to
// time `slow` blocks too. Both hold the whole visible history and nothing is incremental, so a page that is opened late or
// reloaded draws the last ones and misses nothing.

// Heights of a plot in presenter mode; the last: where the page scrolls anyway. Below some 145, names of axes are cut off.
const [LEAST, MOST, SCROLLED] = [150, 460, 180];
const EDGE = 16;  // below the last plot, in pixels: the dashboard's own edge, and what the page leaves free there
const WORTH = 20;  // a plot that has become smaller grows again where it gains as much: not with every line of words that goes
const AROUND = 104;  // height of a panel's two lines of text and of the space around it

// BokehJS comes from the kernel's own Bokeh, once per page: no network, and nothing of it in the saved notebook.
function loadBokeh(model) {
  const version = model.get("bokeh_version");
  if (window.Bokeh?.version === version && window.Bokeh.embed) return Promise.resolve(window.Bokeh);
  const shared = (window.headraceBokeh ??= { ...Promise.withResolvers(), askedAt: -Infinity, pause: 2000 });
  const take = (message, buffers) => {
    if (message.kind !== "bokeh" || shared.taken) return;
    shared.taken = true;
    const url = URL.createObjectURL(new Blob(buffers, { type: "text/javascript" }));
    const script = document.createElement("script");
    script.onload = () => { URL.revokeObjectURL(url); shared.resolve(window.Bokeh); };
    script.src = url;
    document.head.appendChild(script);
  };
  // A page that was just loaded may not be connected to the kernel yet, and would lose a question: ask again. All plots share
  // one question, and pauses grow: an answer has a megabyte, and a page that is busy reads it late.
  const ask = () => {
    if (shared.taken) return;
    if (performance.now() - shared.askedAt >= shared.pause) {
      if (shared.askedAt > 0) shared.pause *= 2;
      shared.askedAt = performance.now();
      try { model.send({ kind: "bokeh" }); } catch { /* not connected */ }
    }
    setTimeout(ask, 500);
  };
  model.on("msg:custom", take);
  ask();
  return shared.promise.finally(() => model.off("msg:custom", take));
}

// Bokeh clears its canvas from half a pixel on, so the first row and the first column of pixels would keep what an earlier
// layout drew there.
function clearEdges(view) {
  const context = view?.canvas_view?.primary?.ctx;
  if (!context) return;
  const [edge, { width, height }] = [Math.ceil(window.devicePixelRatio), context.canvas];
  context.clearRect(0, 0, width, edge);
  context.clearRect(0, 0, edge, height);
}

function connected(element) {
  return new Promise((done) => {
    const look = () => (element.isConnected ? done() : requestAnimationFrame(look));
    look();
  });
}

function columnsOf(names, block) {
  const all = new Float32Array(block.buffer.slice(block.byteOffset, block.byteOffset + block.byteLength));
  const rows = all.length / names.length;
  return Object.fromEntries(names.map((name, i) => [name, all.subarray(i * rows, (i + 1) * rows)]));
}

function theme(element) {
  const style = getComputedStyle(element);
  const read = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
  return {
    ink: read("--headrace-ink", "#222"),
    faint: read("--headrace-faint", "#999"),
    grid: read("--headrace-grid", "#ddd"),
  };
}

// Figures are transparent; texts and lines drawn over the page take the page's colours.
function paint(document_, element) {
  const { ink, faint, grid } = theme(element);
  for (const model of document_._all_models.values()) {
    const has = (name) => name in model.properties;
    if (has("axis_label_text_color")) {
      model.setv({
        axis_label_text_color: ink, major_label_text_color: ink, axis_line_color: faint,
        major_tick_line_color: faint, minor_tick_line_color: null,
      });
    } else if (has("bar_line_color")) {
      model.setv({ major_label_text_color: ink, title_text_color: ink });
    } else if (model.grid_line_color) {  // a figure may have none
      model.grid_line_color = grid;
    }
    if (model.tags?.includes("ink-line")) model.line_color = ink;
  }
}

// Bokeh first looks up each colour and font as a CSS variable, hundreds of times per drawing, and each lookup makes the
// browser recompute the styles of all of JupyterLab. Our figures use no such variables.
const ours = new WeakSet();
function lookUpNoStyles(view, document_) {
  ours.add(document_);
  let kind = view.visuals?.background_fill;
  while (kind && !Object.hasOwn(kind, "_get_css_value")) kind = Object.getPrototypeOf(kind);
  if (!kind || kind.headrace) return;
  const original = kind._get_css_value;
  kind.headrace = true;
  kind._get_css_value = function (name) {
    return ours.has(this.obj?.model?.document) ? "" : original.call(this, name);
  };
}

// A height at which a dashboard alone on its page ends where the window ends; in a notebook, cells follow it.
function growsTo(look, el, dashboard) {
  const cells = el.querySelector(".headrace-cells");
  if (!look.most || !dashboard || !cells || el.closest(".jp-NotebookPanel")) return look.height;
  const [box, plots] = [dashboard.getBoundingClientRect(), el.getBoundingClientRect()];
  const words = box.height - plots.height + AROUND * rowsOf(cells);
  const room = (window.innerHeight - (box.top + window.scrollY) - words) / rowsOf(cells);
  const height = Math.round(Math.min(look.most, Math.max(look.height, room)));
  return steady(el, ["grown", window.innerHeight, cells.clientWidth, cells.childElementCount].join(), height);
}

// Words come and go, so a plot gives way to them, and does not take their place.
function steady(el, page, height) {
  const before = el.headraceFit?.page === page ? el.headraceFit.height : height;
  el.headraceFit = { page, height: height > before && height < before + WORTH ? before : height };
  return el.headraceFit.height;
}

function rowsOf(cells) {
  return Math.ceil(cells.childElementCount / getComputedStyle(cells).gridTemplateColumns.split(" ").length);
}

// The height at which the second row of plots ends where the page does. What is above and around them is measured: it depends on
// the engine's controls, the theme and the words.
function presented(el, dashboard) {
  const cells = el.querySelector(".headrace-cells"), plot = cells?.querySelector(".headrace-plot");
  if (!dashboard || !plot?.offsetHeight) return el.headraceFit?.height ?? SCROLLED;
  const [box, plots] = [dashboard.getBoundingClientRect(), el.getBoundingClientRect()];
  const notebook = el.closest(".jp-WindowedPanel-outer");
  const room = notebook ? notebook.clientHeight : window.innerHeight - (box.top + window.scrollY);
  const all = rowsOf(cells), rows = Math.min(2, all);
  const around = plots.top - box.top + rows * (plots.height / all - plot.offsetHeight) + EDGE;
  const fitting = Math.floor((room - around) / rows);
  const height = fitting < LEAST ? SCROLLED : Math.min(MOST, fitting);
  return steady(el, [room, cells.clientWidth, cells.childElementCount].join(), height);
}

// Sets the height, font sizes and line widths of the figures as `look` says, or else back to what they were made with.
function resize(document_, look, el) {
  const dashboard = el.closest(".headrace-dashboard");
  if (look.height !== 0 && !look.most) delete el.headraceFit;
  const fills = look.height === 0 ? presented(el, dashboard) : 0;
  const asked = growsTo(look, el, dashboard);
  for (const model of document_._all_models.values()) {
    const made = (model.headrace ??= {
      height: model.height, line: model.line_width?.value ?? model.line_width, labels: model.min_border_top,
    });
    if (model.type === "Figure") {
      model.height = look.height === 0 ? fills : asked ?? made.height;
      for (const { ticker } of model.left) if (ticker.type === "BasicTicker") ticker.desired_num_ticks = look.ticks ?? 6;
      if (made.labels) model.min_border_top = Math.max(made.labels, (look.font ?? 0) + 8);
    }
    for (const name of ["axis_label_text_font_size", "major_label_text_font_size", "title_text_font_size"]) {
      if (name in model.properties && model.type !== "Title") model[name] = `${look.font ?? 11}px`;
    }
    if (["Line", "Step", "Segment", "Span"].includes(model.type) && typeof made.line === "number") {
      model.line_width = made.line * (look.line ?? 1);
    }
  }
}

// Columns of a wide page: four, or three where that leaves fewer places in the last row empty. All places are counted, also
// those not shown yet, so that a panel that appears with the first change or burst moves no other under the mouse.
function columnsFor(places) {
  const empty = (columns) => (columns - (places % columns)) % columns;
  return places < 3 ? places : empty(3) < empty(4) ? 3 : 4;
}

function section(panel) {
  const part = document.createElement("section");
  part.className = "headrace-panel";
  part.dataset.panel = panel.key;
  const heading = document.createElement("h4");
  heading.id = `headrace-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
  heading.textContent = panel.title;
  if (panel.about) heading.title = panel.about;
  part.setAttribute("aria-labelledby", heading.id);
  const legend = document.createElement("ul");
  legend.className = "headrace-legend";
  const entries = panel.legend.map(({ label, colour, dash, area }) => {
    const entry = document.createElement("li");
    const swatch = document.createElement("span");
    swatch.style.borderTop = `${area ? 9 : 3}px ${dash} ${colour}`;
    entry.append(swatch, label);
    legend.append(entry);
    return entry;
  });
  const plot = document.createElement("div");
  plot.className = "headrace-plot";
  plot.setAttribute("aria-hidden", "true");
  const labels = document.createElement("div");
  labels.className = "headrace-events";
  plot.append(labels);
  const text = document.createElement("p");
  text.className = "headrace-text";
  text.setAttribute("role", "status");
  part.append(heading, legend, plot, text);
  return { key: panel.key, part, plot, labels, text, entries };
}

async function render({ model, el }) {
  el.classList.add("headrace-grid");
  const Bokeh = await loadBokeh(model);
  await connected(el);
  const panels = model.get("panels");
  const sections = panels.map(section);
  const cells = document.createElement("div");
  cells.className = "headrace-cells";
  cells.append(...sections.map((one) => one.part));
  el.replaceChildren(cells);

  const scene = structuredClone(model.get("document"));
  const roots = Object.fromEntries(panels.map((panel, i) => [panel.root, sections[i].plot]));
  const item = { docid: "scene", root_ids: panels.map((panel) => panel.root), roots };
  const [views] = await Bokeh.embed.embed_items({ scene }, [item]);
  const document_ = views.roots[0].model.document;
  lookUpNoStyles(views.roots[0], document_);
  paint(document_, el);
  const viewOf = (i) => views.roots.find((view) => view.model.id === panels[i].root);

  const arrange = () => {
    const keys = model.get("shown") ?? [];
    const parts = (keys.length ? keys.map((key) => sections.find((one) => one.key === key)) : sections).map((one) => one.part);
    const places = Math.max(parts.length, model.get("places") ?? 0);
    cells.classList.toggle("headrace-single", places === 1);
    cells.classList.toggle("headrace-complete", places === parts.length);
    cells.style.setProperty("--headrace-columns", columnsFor(places));
    for (const part of [...cells.children]) if (!parts.includes(part)) part.remove();
    parts.forEach((part, i) => { if (cells.children[i] !== part) cells.insertBefore(part, cells.children[i] ?? null); });
  };
  const clear = () => sections.forEach((one, i) => one.part.isConnected && clearEdges(viewOf(i)));
  const size = () => {
    resize(document_, model.get("look") ?? {}, el);
    setTimeout(clear, 500);  // after Bokeh's own new layout: no frame may come that would do it
  };

  const named = new Map();
  const find = (name) => {
    if (!named.has(name)) named.set(name, document_.get_model_by_name(name));
    return named.get(name);
  };

  let waiting = false;
  const draw = () => {
    waiting = false;
    const frame = model.get("frame");
    if (!frame.blocks) return;
    for (const [name, [start, end]] of Object.entries(frame.ranges)) find(name)?.setv({ start, end });
    const slow = model.get("slow")?.blocks ?? {};
    for (const [name, block] of Object.entries(slow === drawn ? frame.blocks : { ...frame.blocks, ...slow })) {
      const source = find(name);
      if (source) source.data = { ...source.data, ...columnsOf(model.get("columns")[name], block) };
    }
    drawn = slow;
    nameLines();
    clear();
    label();
  };
  let drawn = null;
  // A legend does not name a line that is not drawn, such as the rate that is due where it is not known.
  const nameLines = () => panels.forEach((panel, i) => panel.legend.forEach(({ source, column }, k) => {
    if (column) sections[i].entries[k].hidden = !find(source)?.data[column].some(Number.isFinite);
  }));
  const label = () => {
    const changes = model.get("labels").changes;
    if (changes) sections.forEach((one, i) => one.part.isConnected && viewOf(i)?.frame && writeLabels(one.labels, viewOf(i), changes));
  };
  const mark = () => {
    for (const [name, data] of Object.entries(model.get("labels"))) {
      const source = find(name);
      if (source) source.data = data;
    }
    label();
  };
  const say = () => {
    const texts = model.get("texts");
    panels.forEach((panel, i) => {
      const text = texts[panel.key] ?? "";
      if (sections[i].text.textContent !== text) sections[i].text.textContent = text;
    });
  };
  // A page that cannot keep up draws less often: after a drawing it pauses for as long as the drawing took.
  let rest = 0;
  const timed = () => {
    const start = performance.now();
    draw();
    requestAnimationFrame(() => requestAnimationFrame(() => { rest = performance.now() - start; settled = performance.now(); }));
  };
  let settled = 0;
  const onFrame = () => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => requestAnimationFrame(timed), Math.max(0, settled + rest - performance.now()));
  };
  size(); arrange(); draw(); mark(); say();
  const follow = new ResizeObserver(() => setTimeout(() => { size(); label(); }, 200));  // after Bokeh's own new layout
  follow.observe(cells);
  const above = new ResizeObserver(() => {
    const { height, most } = model.get("look") ?? {};
    if (height === 0 || most) setTimeout(size, 200);
  });
  const dashboard = el.closest(".headrace-dashboard");
  if (dashboard) above.observe(dashboard);
  window.addEventListener("resize", size);
  model.on("change:shown", arrange);
  model.on("change:places", arrange);
  model.on("change:look", size);
  model.on("change:frame", onFrame);
  model.on("change:labels", mark);
  model.on("change:texts", say);

  // The user's selection, in the one source that can be selected from.
  const selectable = find("selectable");
  const choose = () => {
    model.set("selected", [...selectable.selected.indices].sort((a, b) => a - b));
    model.save_changes();
  };
  const chosen = () => {
    const now = model.get("selected");
    const shown = [...selectable.selected.indices].sort((a, b) => a - b);
    if (now.join() !== shown.join()) selectable.selected.indices = now;
  };
  if (selectable) {
    selectable.selected.change.connect(choose);
    model.on("change:selected", chosen);
    chosen();
  }

  const themed = new MutationObserver(() => paint(document_, el));
  themed.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class"] });
  const preferred = window.matchMedia("(prefers-color-scheme: dark)");
  const repaint = () => paint(document_, el);
  preferred.addEventListener("change", repaint);

  return () => {
    follow.disconnect();
    above.disconnect();
    window.removeEventListener("resize", size);
    model.off("change:shown", arrange);
    model.off("change:places", arrange);
    model.off("change:look", size);
    themed.disconnect();
    preferred.removeEventListener("change", repaint);
    model.off("change:frame", onFrame);
    model.off("change:labels", mark);
    model.off("change:texts", say);
    if (selectable) model.off("change:selected", chosen);
    document_.clear();
  };
}

export default { render: showing(render) };
