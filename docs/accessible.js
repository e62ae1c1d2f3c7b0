// The theme puts a landmark without a name into every block of code; each gets one of its own.
const named = () => document.querySelectorAll(".md-code__nav:not([aria-label])").forEach((nav) => {
  nav.setAttribute("aria-label", `Code ${[...document.querySelectorAll(".md-code__nav")].indexOf(nav) + 1}`);
});
new MutationObserver(named).observe(document.body, { childList: true, subtree: true });
named();

// What is copied from a console is what one types: without the prompt, the output, and comments, which some shells take for words.
document.querySelectorAll(".language-console").forEach((block) => {
  const typed = block.querySelector("code").cloneNode(true);
  typed.querySelectorAll(".gp, .go, .c1").forEach((part) => part.remove());
  const lines = typed.textContent.split("\n").map((line) => line.trim()).filter((line) => line);
  if (lines.length) block.setAttribute("data-copy", lines.join("\n"));
});
