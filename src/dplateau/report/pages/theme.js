"use strict";
// The button that changes the theme. The document hears of every change by an event "theme".
(() => {
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");

  function isDark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : system.matches;
  }

  function changed() {
    button.textContent = isDark() ? "Light theme" : "Dark theme";
    document.dispatchEvent(new Event("theme"));
  }

  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    changed();
  });
  system.addEventListener("change", changed);
  changed();
})();
