// On every page: focuses the first wrong field, the refusal or the button that goes on, closes menus, and disables the buttons of a form that was sent. It asks before text in other forms is lost.
const refused = document.getElementById("refused")
const wrong = document.querySelector("[aria-invalid]:is(input, textarea, select)")
if (wrong ?? refused) (wrong ?? refused).focus()

function closeMenus(except) {
    for (const menu of document.querySelectorAll(".menu[open]")) if (!menu.contains(except)) menu.open = false
}
addEventListener("click", (event) => closeMenus(event.target))
addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return
    document.querySelector(".menu[open] summary")?.focus()
    closeMenus(null)
})

function setBusy(form, isBusy) {
    form.setAttribute("aria-busy", isBusy)
    // A button may be outside of its form.
    for (const each of form.elements) if (each.type === "submit") each.disabled = isBusy
}

// Buttons have no defaultValue, and hidden fields and boxes keep theirs. A code from a mail is of no use elsewhere.
function hasTypedText(form) {
    return [...form.elements].some(
        (each) => "defaultValue" in each && each.value !== each.defaultValue && each.autocomplete !== "one-time-code",
    )
}

// After a form whose answer is a file, the page stays.
const forms = document.querySelectorAll("form[method=post]:not([data-file])")
for (const form of forms) {
    form.addEventListener("submit", (event) => {
        const loses = [...forms].some((other) => other !== form && hasTypedText(other))
        if (loses && !confirm("Text that you typed elsewhere on this page is not saved, and would be lost. Go on?")) {
            event.preventDefault()
            return
        }
        // Disable buttons only after the browser has read the form, because it doesn't send a disabled button.
        setTimeout(() => setBusy(form, true))
    })
}
function enableForms() {
    for (const form of forms) setBusy(form, false)
}
// A page that the browser restores from its history is as it was when it was left.
addEventListener("pageshow", (event) => {
    if (event.persisted) enableForms()
})
// The person stopped the browser while it sent a form.
globalThis.navigation?.addEventListener("navigateerror", enableForms)

const quote = document.getElementById("quote")
if (quote && !refused) {
    // The button gets the focus. A box that begins low in the view is moved up, so that its text is read first.
    (quote.querySelector(":is(button, a.button):not(.quiet)") ?? quote).focus({preventScroll: true})
    const {top, bottom} = quote.getBoundingClientRect()
    if (bottom > innerHeight && top > innerHeight / 3) quote.scrollIntoView()
}

// Shows instants in the reader's own time zone. The title keeps UTC.
const local = new Intl.DateTimeFormat("sv-SE", {dateStyle: "short", timeStyle: "short"})
const zone = new Intl.DateTimeFormat("en", {timeZoneName: "short"})
for (const time of document.querySelectorAll("time")) {
    if (!time.textContent.endsWith(" UTC")) continue
    const at = new Date(time.dateTime)
    time.title = time.textContent
    time.textContent = `${local.format(at)} ${zone.formatToParts(at).find((part) => part.type === "timeZoneName").value}`
}
