// Draws the figures of one output when its place is on the page, in the colours of the page.
//
// Shades of grey from black to white become shades from the ink to the paper of JupyterLab's theme, and again when the
// theme changes. Other colours stay. Where a page has no such theme, ink is black and paper is white: nothing changes.
(() => {
  const item = ITEM;
  const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };

  // What is drawn in a shade of grey: [model, [[property, shade from 0 (black) to 1 (white)], ...]].
  const greysOf = (models) => models.map((model) => [model, Object.keys(model.properties).flatMap((name) => {
    const colour = name.endsWith("color") ? model[name]?.value ?? model[name] : null;
    if (typeof colour !== "string") return [];
    const [red, green, blue, alpha] = rgba(colour);
    return red === green && green === blue && alpha === 255 ? [[name, red / 255]] : [];
  })]);

  // Bokeh fills its canvas from half a pixel on: the first row and column would keep a trace of the former paper.
  const clear = (views) => {
    for (const { primary: { ctx } } of views.query((view) => view.primary?.ctx)) {
      ctx.clearRect(0, 0, ctx.canvas.width, ctx.canvas.height);
    }
  };

  // Ink and paper of the page, each as [red, green, blue].
  const themeOfPage = () => {
    const style = getComputedStyle(document.body);
    const names = [["--jp-ui-font-color1", "black"], ["--jp-layout-color0", "white"]];
    return names.map(([name, otherwise]) => rgba(style.getPropertyValue(name) || otherwise).slice(0, 3));
  };

  const paint = (views, greys, ink, paper) => {
    const mixed = (shade) => `rgb(${ink.map((dark, i) => Math.round(dark + shade * (paper[i] - dark)))})`;
    clear(views);
    for (const [model, shades] of greys) {
      const colours = shades.map(([name, shade]) => [name, model[name]?.value ? { value: mixed(shade) } : mixed(shade)]);
      model.setv(Object.fromEntries(colours));
    }
  };

  const draw = async (place) => {
    const views = await Bokeh.embed.embed_item(item, place);
    const greys = greysOf([...views.roots[0].model.document._all_models.values()]);
    // A legend that is painted anew has no size for a moment, in which Bokeh may take away its room. How long the moment is
    // depends on what else the page has to do, so figures are laid out again and again, each time after twice as long.
    const layOutAfter = (ms) => setTimeout(() => {
      for (const view of views.query((one) => one.model.type === "Figure")) view.invalidate_layout();
      if (ms < 30_000) layOutAfter(2 * ms);
    }, ms);
    let drawn = [[0, 0, 0], [255, 255, 255]].join();  // as figures are made
    const follow = () => {
      const theme = themeOfPage();
      if (theme.join() === drawn) return;
      drawn = theme.join();
      paint(views, greys, ...theme);
      layOutAfter(500);
    };
    follow();
    new MutationObserver(follow).observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-name"] });
  };

  let turns = 3000;
  const wait = () => {
    const place = document.getElementById(item.target_id);
    if (place && window.Bokeh?.embed) draw(place);
    else if (turns--) setTimeout(wait, 100);
  };
  wait();
})();
