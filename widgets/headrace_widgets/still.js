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

  // [model, property, shade from 0 (black) to 1 (white)] of all that is drawn in a shade of grey.
  const greysOf = (models) => models.flatMap((model) => Object.keys(model.properties).flatMap((name) => {
    const colour = name.endsWith("color") ? model[name]?.value ?? model[name] : null;
    if (typeof colour !== "string") return [];
    const [red, green, blue, alpha] = rgba(colour);
    return red === green && green === blue && alpha === 255 ? [[model, name, red / 255]] : [];
  }));

  // Bokeh fills its canvas from half a pixel on: the first row and column would keep a trace of the former paper.
  const clear = (views) => {
    for (const { primary: { ctx } } of views.query((view) => view.primary?.ctx)) {
      ctx.clearRect(0, 0, ctx.canvas.width, ctx.canvas.height);
    }
  };

  const paint = (views, greys) => {
    const style = getComputedStyle(document.body);
    const ink = rgba(style.getPropertyValue("--jp-ui-font-color1") || "black");
    const paper = rgba(style.getPropertyValue("--jp-layout-color0") || "white");
    clear(views);
    for (const [model, name, shade] of greys) {
      const [red, green, blue] = ink.map((dark, i) => Math.round(dark + shade * (paper[i] - dark)));
      const colour = `rgb(${red}, ${green}, ${blue})`;
      model[name] = model[name].value === undefined ? colour : { value: colour };
    }
  };

  const draw = async (place) => {
    const views = await Bokeh.embed.embed_item(item, place);
    const greys = greysOf([...views.roots[0].model.document._all_models.values()]);
    const themed = () => paint(views, greys);
    themed();
    new MutationObserver(themed).observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-name"] });
  };

  let turns = 3000;
  const wait = () => {
    const place = document.getElementById(item.target_id);
    if (place && window.Bokeh?.embed) draw(place);
    else if (turns--) setTimeout(wait, 100);
  };
  wait();
})();
