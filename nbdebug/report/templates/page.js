"use strict";
(() => {
  // Copy buttons, and a search over checks; the page is complete without either.
  for (const block of document.querySelectorAll(".nbdebug-report pre")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.className = "nbd-copy";
    button.addEventListener("click", async () => {
      const text = block.querySelector("code").textContent;
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        const range = document.createRange();
        range.selectNodeContents(block.querySelector("code"));
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        document.execCommand("copy");
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    block.before(button);
  }

  const query = document.getElementById("nbd-query");
  const hits = document.getElementById("nbd-hits");
  const items = [...document.querySelectorAll("[data-check]")];
  const folds = [...document.querySelectorAll(".nbd-fold, .nbd-symptoms")];
  const wasOpen = new Map(folds.map((fold) => [fold, fold.open]));
  query.closest("label").hidden = false;
  query.addEventListener("input", () => {
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = items.filter((item) => {
      const match = words.every((word) => item.dataset.check.toLowerCase().includes(word));
      item.classList.toggle("nbd-hidden", !match);
      return match;
    });
    for (const item of found) item.parentElement.closest("[data-check]")?.classList.remove("nbd-hidden");
    for (const fold of folds) fold.open = words.length ? Boolean(fold.querySelector("[data-check]:not(.nbd-hidden)")) : wasOpen.get(fold);
    hits.textContent = words.length ? `${found.length} of ${items.length} checks and findings match.` : "";
  });

  // A link to a folded finding unfolds it, and printing unfolds everything.
  const unfold = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    const inner = target.querySelector(":scope > details");
    if (inner) inner.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const fold of closed) fold.open = true;
  });
  addEventListener("afterprint", () => { for (const fold of closed) fold.open = false; });
})();
