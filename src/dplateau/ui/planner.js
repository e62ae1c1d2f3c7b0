"use strict";
// The planner: settings into a query, a query into answers, answers into the page.
//
// One request is under way at a time. The noise is asked first, for the newest settings; between two such questions one piece of
// the other answers is asked, for the settings of the last noise that is shown. So all of the page follows a slider while it moves,
// and an old answer never stands over a newer one.
(() => {
  const byId = (id) => document.getElementById(id);
  const form = byId("form");
  const numbers = [...form.elements].filter((one) => one.type === "number");
  const presets = [...document.querySelectorAll("[data-preset]")];
  const names = [...new Set([...form.elements].map((one) => one.name).filter(Boolean))];
  const SLIDER = 1000;
  // Fields that are there where a ledger is.
  const OF_LEDGER = ["account", "partition", "records"].filter((name) => names.includes(name));

  // Settings.

  function value(name) {
    const field = form.elements[name];
    if (field instanceof RadioNodeList) return field.value;
    return field.type === "checkbox" ? (field.checked ? "1" : "0") : field.value.trim();
  }

  function query() {
    return new URLSearchParams(names.map((name) => [name, value(name)])).toString();
  }

  // What a setting was in a query: an answer is told with the settings that it is about, which the form may have left.
  const of = (settings) => (name) => new URLSearchParams(settings).get(name);

  function put(name, text) {
    const field = form.elements[name];
    if (!field) return;
    if (field instanceof RadioNodeList) { if ([...field].some((one) => one.value === text)) field.value = text; }
    else if (field.type === "checkbox") field.checked = text === "1";
    else field.value = text;
  }

  function span(field) {
    return [Math.log(Number(field.dataset.from)), Math.log(Number(field.dataset.to))];
  }

  function toSlider(field) {
    const slider = byId(`${field.id}-slider`);
    const [from, to] = span(field);
    const number = Number(field.value);
    if (number > 0) slider.value = SLIDER * (Math.log(number) - from) / (to - from);
    slider.setAttribute("aria-valuetext", field.value);
  }

  function fromSlider(slider, field) {
    const [from, to] = span(field);
    const number = Math.exp(from + (to - from) * slider.value / SLIDER);
    // Two digits are enough for a slider, and easier to remember; at its ends it has the ends of the range.
    const short = Number(slider.value) === SLIDER ? Number(field.dataset.to) : Number(slider.value) === 0 ? Number(field.dataset.from) : Number(number.toPrecision(2));
    field.value = field.dataset.whole === "1" ? Math.round(short) : short;
    slider.setAttribute("aria-valuetext", field.value);
  }

  function enable() {
    const set = (name, on) => { byId(name).disabled = !on; byId(`${name}-slider`).disabled = !on; };
    byId("sampling-hint").textContent = byId("sampling").selectedOptions[0].dataset.hint;
    set("batch", value("sampling") !== "full");
    set("epochs", value("sampling") !== "one-pass");
    set("l2", value("shrunk") === "1" && value("convex") === "1");
    set("step", value("automatic") === "0" && value("convex") === "1");
    set("radius", value("convex") === "1");
    for (const name of ["shrunk", "ball", "inside", "automatic"]) byId(name).disabled = value("convex") !== "1";
    for (const button of presets) button.setAttribute("aria-pressed", Object.entries(JSON.parse(button.dataset.preset)).every(([name, text]) => value(name) === text));
  }

  // Answers.

  async function ask(part, settings, piece) {
    const given = new URLSearchParams(settings);
    if (part !== "ledger") for (const name of OF_LEDGER) given.delete(name);
    const where = part === "ledger" ? "/forecast?quiet=1" : `/answer?quiet=1&part=${part}&piece=${piece}`;
    const reply = await fetch(`${where}&${given}`, { signal: AbortSignal.timeout(300000) });
    return reply.json();
  }

  const parts = ["composition", ...(OF_LEDGER.length ? ["ledger"] : []), "risk", "plateau", "trade-off", "worth", "begins", "poisson"];
  let working = false, shown = null, shownNoise = null, countsOnLast = false, lost = false;
  const done = new Map();
  let turn = 0;

  function next() {
    for (let k = 0; k < parts.length; k += 1) {
      const part = parts[(turn + k) % parts.length];
      if (part === "ledger" && !of(shown)("account")) { byId("ledger-box").hidden = true; continue; }
      if (done.get(part) !== shown) { turn = (turn + k + 1) % parts.length; return { part, settings: shown, given: of(shown), noise: shownNoise, pieces: [] }; }
    }
    return null;
  }

  async function work() {
    if (working) return;
    working = true;
    let asked = null, task = null;
    try {
      for (;;) {
        const wanted = query();
        if (wanted !== asked) {
          asked = wanted;
          const begun = performance.now();
          const since = () => `${grouped(performance.now() - begun)} ms`;
          let noise = await ask("first", wanted, 0);
          let first = "";
          if (!noise.errors && !noise.certified) {
            complain();
            showFirst(noise, of(wanted));
            first = `First number in ${since()}. `;
            byId("took").textContent = `${first}Certifying …`;
            if (query() !== wanted) continue;
            noise = await ask("noise", wanted, 0);
          }
          complain(noise.errors);
          if (noise.errors) { shown = null; task = null; continue; }
          byId("took").textContent = `${first}${first ? "Certified" : "Answered"} in ${since()}, of which ${grouped(noise.milliseconds ?? 0)} ms are computation.`;
          shown = wanted;
          showNoise(noise, of(wanted));
        }
        task = task || (shown ? next() : null);
        if (!task) { if (query() === asked) break; continue; }
        const piece = await ask(task.part, task.settings, task.pieces.length);
        if (piece.errors) {
          if (task.part === "ledger") show.ledger({ ...task, pieces: [piece] });
          done.set(task.part, task.settings);
          task = null;
          continue;
        }
        task.pieces.push(piece);
        if (task.part === "trade-off" && task.settings === shown) show[task.part](task);
        if (task.pieces.length === piece.pieces) {
          show[task.part](task);
          done.set(task.part, task.settings);
          task = null;
        }
      }
      lost = false;
    } catch (error) {
      lost = true;
      byId("trouble").textContent = "The planner does not answer: is dplateau ui still running? It will be asked again.";
      setTimeout(() => { if (lost) work(); }, 2000);
    } finally {
      working = false;
    }
    if (!lost) { byId("answers").dataset.settled = query(); if (byId("trouble").dataset.kind !== "errors") byId("trouble").textContent = ""; }
  }

  function complain(errors) {
    for (const name of names) {
      const place = byId(`${name}-error`);
      if (place) place.textContent = errors?.[name] || "";
      if (byId(name)) byId(name).toggleAttribute("aria-invalid", false);
      if (place && errors?.[name]) byId(name).setAttribute("aria-invalid", "true");
    }
    const others = Object.entries(errors || {}).filter(([name]) => !byId(`${name}-error`));
    byId("trouble").dataset.kind = errors ? "errors" : "";
    byId("trouble").textContent = errors ? (others.map(([name, text]) => `${name}: ${text}`).join(" ") || `Some settings are not possible: see the fields.${shownNoise === null ? "" : " The answers below are older."}`) : "";
    byId("answers").classList.toggle("stale", Boolean(errors));
  }

  // The page.

  function text(tag, words, extra) {
    const element = document.createElement(tag);
    element.textContent = words;
    return Object.assign(element, extra || {});
  }

  // A line may be broken between options, and nowhere else.
  function options(command) {
    return command.split(/ (?=--)/).flatMap((one, k) => [...(k ? [" "] : []), text("span", one)]);
  }

  function row(...cells) {
    const line = document.createElement("tr");
    line.append(...cells.map((words, k) => text(k ? "td" : "th", words, k ? { className: "number" } : { scope: "row" })));
    return line;
  }

  const grouped = (number) => Number(number).toLocaleString("en", { maximumFractionDigits: 0 });
  const short = (number, digits = 3) => (number >= 1000 ? grouped(Number(number.toPrecision(digits))) : String(Number(number.toPrecision(digits))));
  // Never smaller than it is.
  function up(number, digits = 4) {
    if (!(number > 0)) return String(number);
    const unit = 10 ** (Math.floor(Math.log10(number)) + 1 - digits);
    return short(Math.ceil(number / unit - 1e-9) * unit, digits);
  }
  // A number and its % stay on one line.
  const kept = (words) => words.replaceAll(" %", "\u00a0%");
  const percent = (share) => (share >= 0.9995 ? "100 %" : kept(`${up(100 * share, share < 0.1 ? 2 : 3)} %`));

  // What is there before the certified number is.
  function showFirst(first, given) {
    byId("answers").classList.add("stale");
    byId("noise").textContent = first.shown;
    byId("bar-noise").textContent = first.shown;
    byId("bar-epsilon").textContent = given("epsilon");
    byId("noise-words").textContent = first.words;
    byId("noise-box").className = "verdict pending";
    byId("bar").classList.add("pending");
  }

  function showNoise(noise, given) {
    shownNoise = noise.shown;
    byId("bar").classList.remove("pending");
    byId("bar-epsilon").textContent = given("epsilon");
    byId("noise").textContent = noise.shown;
    byId("bar-noise").textContent = noise.shown;
    byId("noise-words").textContent = `By ${noise.bound_words}.`;
    countsOnLast = noise.counts_on_last;
    if (noise.composition) showComposition(noise.composition);
    done[noise.composition ? "set" : "delete"]("composition", shown);
    byId("noise-box").className = `verdict ${noise.doubtful ? "warn" : "good"}`;
    byId("notes").replaceChildren(...noise.notes.map((note) => text("li", note)));
    byId("notes").hidden = noise.notes.length === 0;
    const facts = [
      ["Certified", `epsilon ${given("epsilon")} at delta ${given("delta")}, ${noise.protects}`],
      ["Training", noise.training],
      ["Released", noise.released],
    ];
    if (noise.step_size) facts.push(["Step size", `${noise.step_size}, which is ${short(noise.step_size * noise.smoothness, 3)}/smoothness`]);
    facts.push(["Noise", `standard deviation ${short(noise.noise_of_mean, 3)} in each coordinate of a mean gradient, whose norm is at most 1`]);
    if (noise.drift) facts.push(["Alone", `the noise would move the score of a row of norm 1 by about ${short(noise.drift, 2)} (one standard deviation)`]);
    byId("facts").replaceChildren(...facts.flatMap(([name, words]) => [text("dt", name), text("dd", words)]));
    byId("command").replaceChildren(...options(noise.command));
    byId("python").textContent = noise.python;
    byId("train-part").hidden = !noise.train;
    byId("train").replaceChildren(...options(noise.train ?? ""));
    byId("train-words").textContent = noise.train ? "For the same epsilon. It plans its noise itself, from public facts." : "";
  }

  function showComposition({ noise, shown: words, times }) {
    if (!countsOnLast) return;
    const needs = noise === null ? "cannot reach this epsilon" : `needs ${words}: ${short(times, 2)} times as much`;
    byId("noise-words").textContent += noise !== null && times <= 1.0005 ? " Here the last-iterate bound is no better." : ` Composition, which counts on no assumption, ${needs}.`;
  }

  const show = {
    composition({ pieces: [composition], settings }) {
      if (settings === shown) showComposition(composition);
    },

    risk({ pieces: [risk], given }) {
      const box = byId("risk-box");
      box.className = `verdict ${risk.says_something ? "good" : "warn"}`;
      if (risk.bound === null) {
        byId("risk").textContent = "no bound";
        byId("risk-words").textContent = `No theorem applies: ${risk.why_not}`;
      } else {
        byId("risk").textContent = risk.says_something ? `at most ${risk.shown}` : "nothing is proved";
        const whose = risk.of === "rows" ? "mean loss on the rows" : "mean loss in the population, of which the rows are independent draws,";
        const added = risk.l2 ? " with the l2 term" : "";
        const best = risk.against === "all" ? "the best weights of all" : `the best weights of norm at most ${given("radius")}`;
        byId("risk-words").textContent = risk.says_something
          ? `Proved: the ${whose}${added} exceeds that of ${best} by no more, ${percent(risk.share)} of the loss at the start (0.693).`
          : `The bound, ${risk.shown}, is above the loss at the start (0.693): it says nothing, which does not mean that the model is bad.`;
        byId("risk-words").title = risk.theorem;
      }
      byId("bar-risk").textContent = risk.bound === null ? "no bound" : risk.says_something ? `≤ ${risk.shown}` : "not proved";
    },

    // What the plan would leave of an account's budget.
    ledger({ pieces: [plan], given }) {
      const wrong = plan.errors ? Object.values(plan.errors).join(" ") : "";
      byId("ledger-box").hidden = false;
      byId("ledger-box").className = `verdict ${plan.fits ? "good" : wrong ? "bad" : "warn"}`;
      byId("ledger-account").textContent = plan.account ?? given("account");
      byId("ledger-account").href = plan.address ?? "/ledger";
      byId("ledger-answer").textContent = plan.answer ? kept(plan.answer) : "It could not be reserved.";
      byId("ledger-more").textContent = wrong ? wrong[0].toUpperCase() + wrong.slice(1) : plan.more;
      byId("ledger-bar").hidden = Boolean(wrong);
      byId("ledger-bar").setAttribute("aria-label", plan.answer ?? "");
      const [spent, planned] = byId("ledger-bar").children;
      spent.style.width = `${100 * (1 - (plan.left ?? 1))}%`;
      planned.style.width = `${100 * (plan.fits ? plan.left - plan.leaves : plan.left ?? 0)}%`;
      planned.classList.toggle("over", !plan.fits);
    },

    plateau({ pieces }) {
      const [first] = pieces;
      const rows = pieces.flatMap((one) => one.steps.map((steps, k) => [steps, one.composition[k], one.certified[k]]));
      rows.sort((a, b) => a[0] - b[0]);
      const steps = rows.map((one) => one[0]);
      const all = rows.flatMap((one) => [one[1], one[2]]).filter((one) => one > 0);
      // Where nothing changes, rounding must not fill the figure.
      const low = Math.min(...all, first.target / 2) / 1.2, high = Math.max(...all, 2 * first.target) * 1.2;
      const certified = { name: "certified", x: steps, y: rows.map((one) => one[2]), colour: "series-1", width: 3, hover: "%{x:,} steps: %{y:.4g}" };
      const composition = { name: "composition alone", x: steps, y: rows.map((one) => one[1]), colour: "series-2", dash: "dash", hover: "%{x:,} steps: %{y:.4g} by composition" };
      const target = { name: "the target", x: [steps[0], steps.at(-1)], y: [first.target, first.target], colour: "quiet", width: 1, dash: "dot", hover: "%{y:.4g}" };
      const lines = [certified, ...(first.has_last ? [composition] : []), target, marked("these settings", first.chosen, first.target, "%{x:,} steps: %{y:.4g}")];
      dplateau.draw(byId("plateau"), {
        x: { title: "steps", log: true, range: [steps[0], steps.at(-1)], ...ticks(steps[0], steps.at(-1)) },
        y: { title: "epsilon at this noise", log: true, range: [low, high], ...ticks(low, high) },
        lines,
      });
      byId("plateau-table").tBodies[0].replaceChildren(...rows.map((one) => row(grouped(one[0]), one[1] === null ? "none" : up(one[1]), one[2] === null ? "none" : up(one[2]))));
    },

    begins({ pieces: [begins] }) {
      const fixed = "With the noise above, more or fewer steps would cost this; the diamond marks the settings.";
      byId("plateau-words").textContent = kept(`${fixed} ${begins.words}`);
    },

    "trade-off"({ pieces, given }) {
      const trade = pieces.at(-1);
      const detected = (misses) => misses.map((one) => 1 - one);
      const [alarms, detects] = trade.readings.find(([rate]) => rate === 0.01);
      dplateau.draw(byId("trade-off"), {
        x: { title: "false alarms", range: [0, 1] },
        y: { title: "detected at most", range: [0, 1] },
        lines: [
          { name: "certified", x: trade.false_alarms, y: detected(trade.misses), colour: "series-1", width: 3, hover: "%{x:.3f} false alarms: at most %{y:.4f} detected" },
          { name: "epsilon, delta alone", x: trade.false_alarms, y: detected(trade.one_point), colour: "series-2", dash: "dash", hover: "%{x:.3f}: %{y:.4f} by epsilon and delta" },
          { name: "guessing", x: [0, 1], y: [0, 1], colour: "quiet", width: 1, dash: "dot", hover: "guessing" },
          marked("at 1 % false alarms", alarms, detects, "%{x:.2f}: %{y:.4g}"),
        ],
      });
      const what = given("adjacency") === "replace" ? "a row that was replaced" : "a row that was in the data";
      byId("attacker").textContent = kept(`With ${short(100 * alarms)} % false alarms, the best attacker detects ${what} with a probability of at most ${percent(detects)}; a blind guess, ${short(100 * alarms)} %.`);
      byId("attacker-table").tBodies[0].replaceChildren(...trade.readings.map(([rate, found]) => row(`${short(100 * rate)} %`, percent(found), `${short(100 * rate)} %`)));
      byId("trade-off-words").textContent = `Detections and false alarms differ by at most ${percent(trade.advantage)}.${trade.mu !== null ? ` The release is ${up(trade.mu, 4)}-GDP.` : ""}`;
    },

    worth({ pieces, noise }) {
      for (const one of pieces) {
        const same = one.noise === null || one.shown === noise;
        byId(`worth-${one.assumption}`).textContent = same ? "the same" : `${one.there ? "without" : "with"} it ${one.shown}`;
      }
    },

    poisson({ pieces: [poisson] }) {
      byId("worth-words").textContent = poisson.noise === null ? ""
        : `Poisson batches of the same size and composition alone, with all iterates released, would need ${poisson.shown}.`;
    },
  };

  const marked = (name, x, y, hover) => ({ name, x: [x], y: [y], colour: "series-5", marker: "diamond", hover });

  function ticks(from, to) {
    const found = [], labels = [];
    const low = Math.floor(Math.log10(from)), high = Math.ceil(Math.log10(to));
    const every = Math.max(1, Math.ceil((high - low) / 6));
    for (let k = low; k <= high; k += every) {
      for (const part of high - low <= 2 ? [1, 2, 5] : [1]) {
        const at = part * 10 ** k;
        found.push(at);
        labels.push(at >= 10000 ? `10${[...String(k)].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)]).join("")}` : at >= 1 ? grouped(at) : String(Number(at.toPrecision(1))));
      }
    }
    return { ticks: found, labels };
  }

  // Events.

  function takeFacts(field) {
    for (const [name, text] of Object.entries(field.selectedOptions[0].dataset)) put(name, text);
    numbers.forEach(toSlider);
  }

  function changed() {
    enable();
    history.replaceState(null, "", `?${query()}`);
    delete byId("answers").dataset.settled;
    work();
  }

  // The assumptions stand beside the answer, outside the form.
  byId("planner").addEventListener("input", (event) => {
    const field = event.target;
    if (field.type === "range") fromSlider(field, byId(field.id.replace("-slider", "")));
    if (field.type === "number") toSlider(field);
    if (field.id === "account") takeFacts(field);
    changed();
  });
  form.addEventListener("submit", (event) => event.preventDefault());

  for (const button of presets) {
    button.addEventListener("click", () => {
      for (const [name, text] of Object.entries(JSON.parse(button.dataset.preset))) put(name, text);
      numbers.forEach(toSlider);
      changed();
    });
  }

  for (const what of ["train", "command", "python"]) {
    byId(`copy-${what}`).addEventListener("click", async () => {
      let words = "Copied.";
      try { await navigator.clipboard.writeText(byId(what).textContent); }
      catch { getSelection().selectAllChildren(byId(what)); words = "Selected: copy it with the keyboard."; }
      byId(`${what}-copied`).textContent = words;
      setTimeout(() => { byId(`${what}-copied`).textContent = ""; }, 4000);
    });
  }

  for (const [name, text] of new URLSearchParams(location.search)) put(name, text);
  numbers.forEach(toSlider);
  if (OF_LEDGER.length) byId("part").open = Boolean(value("records") || value("partition"));
  enable();
  work();
})();
