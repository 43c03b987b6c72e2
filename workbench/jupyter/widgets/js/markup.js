// The one place where text becomes a part of the page as HTML: everywhere else texts are `textContent` and attributes,
// which show any letter as it is.

/** Fills an element with HTML that Python made, where all text in it was escaped: workbench/ground/basics/html_builder.py. */
export function placeMarkup(target, markup) {
  target.innerHTML = markup;
}

/** An element as HTML; its texts are escaped. */
export function markupOf(made) {
  return made.outerHTML;
}
