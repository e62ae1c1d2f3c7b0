"use strict";
// What the pointer reads in an SVG chart: the nearest of its dots and readings.
for (const chart of document.querySelectorAll("svg.chart")) {
  const tip = document.createElement("p");
  tip.className = "tip";
  tip.hidden = true;
  chart.after(tip);
  const dots = [...chart.querySelectorAll("[data-say]")];

  function place(dot) {
    const at = dot.getBoundingClientRect();
    return [at.x + at.width / 2, at.y + at.height / 2];
  }

  function read(event) {
    const far = (dot) => { const [x, y] = place(dot); return Math.hypot(x - event.clientX, y - event.clientY); };
    const nearest = dots.reduce((one, other) => (far(other) < far(one) ? other : one));
    dots.forEach((dot) => dot.classList.toggle("read", dot === nearest && far(nearest) < 40));
    tip.hidden = far(nearest) >= 40;
    tip.textContent = nearest.dataset.say;
    const [x, y] = place(nearest), frame = chart.parentElement.getBoundingClientRect();
    tip.style.left = `${Math.min(Math.max(x - frame.x - tip.offsetWidth / 2, 0), frame.width - tip.offsetWidth)}px`;
    tip.style.top = `${y - frame.y - tip.offsetHeight - 12}px`;
  }

  chart.addEventListener("pointermove", read);
  chart.addEventListener("pointerdown", read);
  chart.addEventListener("pointerleave", () => {
    tip.hidden = true;
    dots.forEach((dot) => dot.classList.remove("read"));
  });
}
