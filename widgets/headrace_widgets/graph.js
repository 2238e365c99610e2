// Draws a run's operators as SVG, in the colours of the page. Names are set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const LETTERS = { title: 9, small: 6.1 };  // width of a letter in the widest font that a page may have
const FOLD_SCALE = 0.9;  // below this a run's graph is hard to read: it continues in a row below
const LEAST_SCALE = 0.75;  // below this a graph that is not folded is scrolled
const [LEFT, RIGHT, BETWEEN] = [20, 14, 26];  // of rows: space for the arrows that lead from one row to the next

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

// The columns of each row, left to right: as many as fit, and all rows about equally wide.
function rowsOf(columns, room) {
  const fill = (most) => {
    const rows = [];
    for (const column of columns) {
      const row = rows.at(-1);
      if (row && column.end - row[0].start <= most) row.push(column);
      else rows.push([column]);
    }
    return rows;
  };
  let rows = fill(room);
  for (let most = room - 10; most > 0; most -= 10) {
    const even = fill(most);
    if (even.length > rows.length) break;
    rows = even;
  }
  return rows;
}

// In a narrow page the columns wrap into a row below, as words do.
function folded(drawing, room) {
  const { nodes = [], edges = [], width = 0, folds = false } = drawing;
  if (!folds || !room || width * FOLD_SCALE <= room) return drawing;
  const columns = [];
  for (const node of nodes) {
    const column = (columns[node.column] ??= { start: node.x, end: 0, nodes: [] });
    column.nodes.push(node);
    column.end = Math.max(column.end, node.x + node.width);
  }
  const moved = new Map();
  let top = 4, wide = 0;
  for (const [number, row] of rowsOf(columns.filter(Boolean), room - LEFT - RIGHT).entries()) {
    const own = row.flatMap((column) => column.nodes);
    const first = Math.min(...own.map((node) => node.y)), last = Math.max(...own.map((node) => node.y + node.height));
    const [dx, dy] = [LEFT - row[0].start, top - first];
    for (const node of own) moved.set(node.key, { number, dx, dy, below: dy + last + BETWEEN / 2 });
    wide = Math.max(wide, row.at(-1).end + dx + RIGHT);
    top += last - first + BETWEEN;
  }
  return {
    ...drawing, width: wide, height: top - BETWEEN + 4,
    nodes: nodes.map((node) => ({ ...node, x: node.x + moved.get(node.key).dx, y: node.y + moved.get(node.key).dy })),
    edges: edges.map((edge) => {
      const [x, y, to, at] = edge.places, a = moved.get(edge.start), b = moved.get(edge.end);
      return { ...edge, places: [x + a.dx, y + a.dy, to + b.dx, at + b.dy], between: a.number === b.number ? null : a.below };
    }),
  };
}

function box(svg, node, chosen, colours, choose, { line = 15, font = 11 }) {
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
  const scale = font / 11;
  const title = make("text", { x: left, y, class: "headrace-graph-title" }, group, short(mark + node.title, node.width - 14, LETTERS.title * scale));
  title.style.fontSize = `${font + 2}px`;
  for (const words of node.lines) {
    const text = make("text", { x: left, y: (y += line), class: "headrace-graph-small" }, group, short(words, node.width - 14, LETTERS.small * scale));
    text.style.fontSize = `${font}px`;
  }
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
    const drawing = folded(model.get("drawing"), el.clientWidth);
    const { nodes = [], edges = [], width = 0, height = 0, label = "Operators of the run" } = drawing;
    const colours = model.get("colours");
    const focused = el.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": label });
    svg.style.minWidth = `${LEAST_SCALE * width}px`;
    for (const { places: [x, y, to, at], is_pressed, about, has_tip, between = null } of edges) {
      const look = is_pressed ? { stroke: colours.blocked, "stroke-width": 4 } : {};
      const middle = (x + to) / 2;
      const curve = `M${x},${y} C${middle},${y} ${middle},${at} ${to},${at}`;
      const toNextRow = `M${x},${y} h8 V${between} H${to - 9} V${at} H${to}`;
      const arrow = make("path", { class: "headrace-edge", d: between === null ? curve : toNextRow, ...look }, svg);
      if (is_pressed) make("title", {}, arrow, about);
      if (has_tip) make("path", { class: "headrace-tip", d: `M${to - 3},${at - 5} l8,5 l-8,5 z` }, svg);
    }
    for (const node of nodes) box(svg, node, model.get("chosen"), colours, choose, drawing);
    el.replaceChildren(svg);
    if (focused) svg.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  };
  draw();
  let drawnFor = el.clientWidth;
  const follow = new ResizeObserver(() => {
    if (el.clientWidth === drawnFor) return;
    drawnFor = el.clientWidth;
    draw();
  });
  follow.observe(el);
  model.on("change:drawing", draw);
  model.on("change:chosen", draw);
  return () => { follow.disconnect(); model.off("change:drawing", draw); model.off("change:chosen", draw); };
}

export default { render: showing(render) };
