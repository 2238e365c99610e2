// Labels of reconfigurations above a plot: none is clipped, none covers another. A label moves a little to the right of the
// one before it; where that is not enough, the two are merged.

const LABEL_GAP = 6;
const ASIDE = 24;

// Turns marks {x, label}, with x in pixels and increasing, into [{left, width, text}] between 0 and `width`.
function placeLabels(marks, width, widthOf) {
  const place = (marks) => {
    let text = marks.map((mark) => mark.label).join(", ");
    if (marks.length > 3 || (marks.length > 1 && widthOf(text) > width / 2)) text = `${marks.length} changes`;
    if (widthOf(text) > width) text = marks.length > 1 ? `${marks.length}` : "change";
    const size = Math.min(widthOf(text), width);
    const middle = (marks[0].x + marks[marks.length - 1].x) / 2;
    return { marks, text, width: size, left: Math.min(Math.max(0, middle - size / 2), width - size) };
  };
  const placed = [];
  for (const mark of marks) {
    let one = place([mark]);
    while (placed.length) {
      const before = placed[placed.length - 1];
      const free = before.left + before.width + LABEL_GAP;
      if (free <= one.left) break;
      if (free - one.left <= ASIDE && free + one.width <= width && mark.x > before.marks[before.marks.length - 1].x + ASIDE) {
        one.left = free;
        break;
      }
      one = place([...placed.pop().marks, ...one.marks]);
    }
    placed.push(one);
  }
  return placed;
}

const measuring = document.createElement("canvas").getContext("2d");

// Writes the labels of `changes` (columns t and label) into a strip over the plot of a Bokeh view, if it is a plot over time,
// which has marks. Other plots, such as that of chain lengths, have another x axis, where seconds mean nothing. Labels begin
// where the frame does: the axis label of a low plot reaches up to them.
function writeLabels(strip, view, changes) {
  if (!view.model.renderers.some((one) => one.data_source?.name === "changes")) return;
  const { start, end } = view.model.x_range;
  const marks = [], edge = Math.round(view.frame.bbox.left);
  for (let i = 0; i < (changes.t?.length ?? 0); i++) {
    if (changes.t[i] >= start && changes.t[i] <= end) marks.push({ x: view.frame.x_scale.compute(changes.t[i]) - edge, label: changes.label[i] });
  }
  if (!marks.length && !strip.childElementCount) return;
  marks.sort((a, b) => a.x - b.x);
  measuring.font = getComputedStyle(strip).font;
  const placed = placeLabels(marks, strip.clientWidth - edge, (text) => Math.ceil(measuring.measureText(text).width) + 2);
  while (strip.childElementCount > placed.length) strip.lastChild.remove();
  while (strip.childElementCount < placed.length) strip.append(document.createElement("span"));
  placed.forEach((one, i) => {
    const label = strip.children[i];
    if (label.textContent !== one.text) label.textContent = one.text;
    label.style.transform = `translateX(${edge + Math.round(one.left)}px)`;
  });
}
