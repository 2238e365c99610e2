// Draws a run's operators as SVG, in the colours of the page. Names are set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const LETTERS = { title: 9, small: 6.1 };  // width of one, in the widest font that a page may have
const LEAST_SCALE = 0.75;  // smaller it cannot be read: then it is scrolled

function make(name, attributes, parent, text) {
  const part = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) part.setAttribute(key, value);
  if (text !== undefined) part.textContent = text;
  parent?.append(part);
  return part;
}

const short = (text, room, letter) => {
  const most = Math.floor(room / letter);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
};

function bar(group, { label, busy, blocked, about, is_bottleneck }, x, y, width, colours) {
  const row = make("g", {}, group);
  make("title", {}, row, about);
  const left = x + (label ? 16 : 0), room = width - (label ? 16 : 0);
  if (label) make("text", { x, y: y + 8, class: "headrace-graph-small" }, row, label);
  make("rect", { x: left, y, width: room, height: 9, fill: colours.idle }, row);
  make("rect", { x: left, y, width: room * busy, height: 9, fill: colours.busy }, row);
  make("rect", { x: left + room * busy, y, width: room * Math.min(blocked, 1 - busy), height: 9, fill: colours.blocked }, row);
  if (is_bottleneck) make("rect", { x: left - 1, y: y - 1, width: room + 2, height: 11, fill: "none", stroke: colours.limit, "stroke-width": 2 }, row);
}

function box(svg, node, chosen, colours, choose) {
  const group = make("g", { class: `headrace-node headrace-node-${node.kind}`, "data-key": node.key }, svg);
  const isChosen = node.kind === "operator" && node.operator === chosen;
  make("title", {}, group, node.about);
  const shape = { x: node.x, y: node.y, width: node.width, height: node.height, rx: node.kind === "gate" ? 14 : 4 };
  make("rect", { ...shape, class: `headrace-box${isChosen ? " headrace-chosen" : ""}${node.is_bottleneck ? " headrace-limit" : ""}` }, group);
  const parts = node.bars.length || 1;
  const busy = node.bars.reduce((sum, one) => sum + one.busy, 0) / parts;
  const blocked = node.bars.reduce((sum, one) => sum + one.blocked, 0) / parts;
  const [tint, share] = blocked > busy ? [colours.blocked, blocked] : [colours.busy, busy];
  if (node.bars.length) make("rect", { ...shape, fill: tint, "fill-opacity": 0.3 * share, stroke: "none" }, group);
  const left = node.x + 8;
  let y = node.y + 15;
  const mark = node.is_bottleneck ? "▲ " : "";
  make("text", { x: left, y, class: "headrace-graph-title" }, group, short(mark + node.title, node.width - 14, LETTERS.title));
  for (const line of node.lines) make("text", { x: left, y: (y += 15), class: "headrace-graph-small" }, group, short(line, node.width - 14, LETTERS.small));
  y += 7;
  for (const one of node.bars) { bar(group, one, left, y, node.width - 16, colours); y += 11; }
  if (!node.operator) return;
  group.setAttribute("role", "button");
  group.setAttribute("tabindex", "0");
  group.setAttribute("aria-pressed", String(isChosen));
  group.setAttribute("aria-label", `${node.about}${node.is_bottleneck ? "; the bottleneck" : ""}; shows ${node.operator}`);
  group.addEventListener("click", () => choose(node.operator));
  group.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose(node.operator);
  });
}

function render({ model, el }) {
  el.classList.add("headrace-graph");
  const choose = (operator) => model.send({ kind: "choose", operator });
  const draw = () => {
    const { nodes = [], edges = [], width = 0, height = 0 } = model.get("drawing");
    const colours = model.get("colours");
    const focused = el.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Operators of the run" });
    svg.style.minWidth = `${LEAST_SCALE * width}px`;
    for (const { places: [x, y, to, at], is_pressed } of edges) {
      const look = is_pressed ? { stroke: colours.blocked, "stroke-width": 4 } : {};
      const middle = (x + to) / 2;
      const arrow = make("path", { class: "headrace-edge", d: `M${x},${y} C${middle},${y} ${middle},${at} ${to},${at}`, ...look }, svg);
      if (is_pressed) make("title", {}, arrow, "waits for room: back-pressure");
      make("path", { class: "headrace-tip", d: `M${to - 3},${at - 5} l8,5 l-8,5 z` }, svg);
    }
    for (const node of nodes) box(svg, node, model.get("chosen"), colours, choose);
    el.replaceChildren(svg);
    if (focused) svg.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  };
  draw();
  model.on("change:drawing", draw);
  model.on("change:chosen", draw);
  return () => { model.off("change:drawing", draw); model.off("change:chosen", draw); };
}

export default { render };
