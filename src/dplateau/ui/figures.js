"use strict";
// Figures from descriptions, in the colours of the theme.
//
// A description is {x: axis, y: axis, lines: [line, ...]}, where
//   axis  {title, log, range: [from, to] in the axis's own numbers, ticks: [numbers] with labels: [texts]}
//   line  {name, x, y, colour: "series-1" | ... | "quiet", width, dash, marker: the symbol that is drawn in place of a line, hover}.
const dplateau = (() => {
  const drawn = new Map();
  const PAPER = { width: 640, height: 340 }; // fits between the margins of A4 and of US letter; planner.html leaves the room

  function colour(name) {
    const probe = document.createElement("span");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  function axis(given) {
    return {
      title: { text: given.title, standoff: 10 },
      type: given.log ? "log" : "linear",
      range: given.log ? given.range.map(Math.log10) : given.range,
      tickvals: given.ticks,
      ticktext: given.labels,
      exponentformat: "none",
      gridcolor: colour("grid"),
      linecolor: colour("line"),
      zeroline: false,
      automargin: true,
    };
  }

  function trace(line) {
    const paint = colour(line.colour);
    return {
      type: "scatter",
      mode: line.marker ? "markers" : "lines",
      name: line.name,
      x: line.x,
      y: line.y,
      line: { color: paint, width: line.width ?? 2, dash: line.dash || "solid" },
      marker: { color: paint, size: 11, symbol: line.marker },
      hovertemplate: `${line.hover}<extra></extra>`,
      cliponaxis: false,
    };
  }

  function draw(element, description) {
    drawn.set(element, description);
    const narrow = element.clientWidth < 480;
    const font = { family: getComputedStyle(document.body).fontFamily, size: narrow ? 11 : 13, color: colour("text") };
    const layout = {
      font,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 56, r: 16, t: 8, b: 48 },
      xaxis: axis(description.x),
      yaxis: axis(description.y),
      legend: { orientation: "h", yanchor: "bottom", y: 1.02, x: 0, font: { size: font.size - 1 } },
      hovermode: "closest",
      hoverlabel: { bgcolor: colour("raised"), bordercolor: colour("line"), font: { color: colour("text") } },
      dragmode: "zoom",
      ...(document.documentElement.classList.contains("printing") ? PAPER : { autosize: true }),
    };
    // The figure is one picture to a screen reader, which reads its label and its table: no buttons inside.
    return Plotly.react(element, description.lines.map(trace), layout, { displayModeBar: false, responsive: true });
  }

  function redraw() {
    for (const [element, description] of drawn) draw(element, description);
  }

  document.addEventListener("theme", redraw);
  addEventListener("beforeprint", () => { document.documentElement.classList.add("printing"); redraw(); });
  addEventListener("afterprint", () => { document.documentElement.classList.remove("printing"); redraw(); });

  return { draw };
})();
