// The theme puts a landmark without a name into every block of code; each gets one of its own.
const named = () => document.querySelectorAll(".md-code__nav:not([aria-label])").forEach((nav) => {
  nav.setAttribute("aria-label", `Code ${[...document.querySelectorAll(".md-code__nav")].indexOf(nav) + 1}`);
});
// What is wider than its box scrolls by keyboard too. The theme sees to it for code alone, and takes it back where there is no mouse.
const reach = (box) => {
  const wide = box.scrollWidth > box.clientWidth;
  if (wide !== box.hasAttribute("tabindex")) wide ? box.setAttribute("tabindex", "0") : box.removeAttribute("tabindex");
};
const sizes = new ResizeObserver((changes) => changes.forEach(({ target }) => reach(target)));
const taken = new MutationObserver((changes) => changes.forEach(({ target }) => reach(target)));
const boxes = new WeakSet();
const watch = () => document.querySelectorAll("pre > code, .md-typeset__scrollwrap, .formula").forEach((box) => {
  if (boxes.has(box)) return;
  boxes.add(box);
  sizes.observe(box);
  taken.observe(box, { attributeFilter: ["tabindex"] });
});
const mended = () => { named(); watch(); };
new MutationObserver(mended).observe(document.body, { childList: true, subtree: true });
mended();

// What is copied from a console is what one types: without the prompt, the output, and comments, which some shells take for words.
document.querySelectorAll(".language-console").forEach((block) => {
  const typed = block.querySelector("code").cloneNode(true);
  typed.querySelectorAll(".gp, .go, .c1").forEach((part) => part.remove());
  const lines = typed.textContent.split("\n").map((line) => line.trim()).filter((line) => line);
  if (lines.length) block.setAttribute("data-copy", lines.join("\n"));
});
