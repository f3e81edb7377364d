"""Names for slider handles: what a screen reader says of them."""

import ipywidgets as widgets

ROOT = "course-explorer"

# ipywidgets names text fields but not the handles of its sliders, and has no option for it. The
# nearest label names a handle; the readout, shown or hidden, says where it stands.
SCRIPT = """
const nearest = handle => {
    for (let box = handle.parentElement; box; box = box.parentElement) {
        for (const label of box.querySelectorAll('.widget-label')) {
            if (label.textContent.trim()) return label.textContent.trim();
        }
    }
};
const name = root => root.querySelectorAll('.noUi-handle').forEach(handle => {
    const readout = handle.closest('.widget-slider')?.querySelector('.widget-readout');
    handle.setAttribute('aria-label', nearest(handle));
    if (readout) handle.setAttribute('aria-valuetext', readout.textContent);
});
const start = tries => {
    const root = element.closest('.ROOT');
    if (!root) return tries && setTimeout(start, 100, tries - 1);
    new MutationObserver(() => name(root)).observe(root, {childList: true, subtree: true});
    name(root);
};
start(50);
""".replace("ROOT", ROOT)


def labels() -> widgets.Output:
    """An output without height that names every slider handle of the explorer it lies in."""
    data = {"application/javascript": SCRIPT}
    output = {"output_type": "display_data", "data": data, "metadata": {}}
    return widgets.Output(outputs=(output,), layout=widgets.Layout(height="0", overflow="hidden"))
