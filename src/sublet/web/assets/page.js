// On every page: focuses the refusal or the price, and disables the buttons of a form that was sent.
const refused = document.getElementById("refused")
if (refused) refused.focus()

for (const form of document.querySelectorAll("form[method=post]")) {
    form.addEventListener("submit", () => {
        form.setAttribute("aria-busy", "true")
        // Disable buttons only after the browser has read the form, because it doesn't send a disabled button.
        setTimeout(() => { for (const button of form.querySelectorAll("button")) button.disabled = true })
    })
}
// A page that the browser restores from its history has disabled buttons.
addEventListener("pageshow", (event) => {
    if (!event.persisted) return
    for (const button of document.querySelectorAll("form button")) button.disabled = false
})

const quote = document.getElementById("quote")
if (quote && !refused) quote.focus()
