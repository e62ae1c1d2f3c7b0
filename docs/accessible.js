// The theme puts a landmark without a name into every block of code; each gets one of its own.
const named = () => document.querySelectorAll(".md-code__nav:not([aria-label])").forEach((nav) => {
  nav.setAttribute("aria-label", `Code ${[...document.querySelectorAll(".md-code__nav")].indexOf(nav) + 1}`);
});
new MutationObserver(named).observe(document.body, { childList: true, subtree: true });
named();
