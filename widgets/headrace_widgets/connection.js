// Asks the kernel whether it listens, and says on the page when it does not; connection.py describes the protocol.

const TURN_MS = 500;
const ASKS = 8;     // turns from one question to the next; using a control asks at once
const WAITS = 3;    // turns without an answer: the kernel is busy
const SILENT = 20;  // turns without any message from the kernel: it is gone
const USED = ["pointerdown", "keydown", "input"];

function connected(element) {
  return new Promise((done) => {
    const look = () => (element.isConnected ? done() : requestAnimationFrame(look));
    look();
  });
}

function line(kind, sign, title, ...rest) {
  const made = document.createElement("div");
  made.className = `headrace-message headrace-${kind}`;
  const head = document.createElement("b");
  head.textContent = `${sign} ${title}:`;
  made.append(head, " ", ...rest);
  return made;
}

function code(text) {
  const made = document.createElement("code");
  made.textContent = text;
  return made;
}

const WORDS = {
  listens: () => [],
  busy: () => [line("warning", "▲", "Waiting for the kernel", "it is busy, with a cell for example. What you click takes effect after that.")],
  silent: (called) => [line(
    "error", "✖", "Nothing comes from the kernel",
    `it was stopped or restarted, or cannot be reached. This is what it sent last. If it still runs, `, code(called),
    " in a new cell shows this again; if not, run the notebook's cells again.",
  )],
};

function render({ model, el }) {
  el.classList.add("headrace-connection");
  el.setAttribute("role", "status");
  let asked = ASKS, unanswered = 0, unheard = 0, isAnswered = true, said = "listens";

  const say = () => {
    const now = isAnswered || unanswered < WAITS ? "listens" : unheard < SILENT ? "busy" : "silent";
    if (now === said) return;
    said = now;
    el.replaceChildren(...WORDS[now](model.get("called")));
  };
  const ask = () => {
    if (isAnswered) unanswered = 0;
    isAnswered = false;
    asked = 0;
    try { model.send({ kind: "ask" }); } catch { /* not connected: no answer will come */ }
  };
  const turn = () => {
    asked += 1;
    unanswered += 1;
    unheard += 1;
    if (asked >= ASKS) ask();
    say();
  };
  const hear = (message) => {
    unheard = 0;
    if (message.kind === "answer") isAnswered = true;
    say();
  };
  const use = () => { if (isAnswered) ask(); };
  // Timers run rarely in a background page, so ask as soon as the page is visible again.
  const look = () => { if (document.visibilityState === "visible") ask(); };

  model.on("msg:custom", hear);
  ask();
  const timer = setInterval(turn, TURN_MS);
  document.addEventListener("visibilitychange", look);
  let dashboard = null;
  connected(el).then(() => {
    dashboard = el.closest(".headrace-dashboard");
    for (const kind of USED) dashboard?.addEventListener(kind, use, { capture: true, passive: true });
  });

  return () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", look);
    for (const kind of USED) dashboard?.removeEventListener(kind, use, { capture: true });
    model.off("msg:custom", hear);
  };
}

export default { render: showing(render) };
