// What every page does: move the focus to what is wrong, and send a form once.
const refused = document.getElementById("refused")
if (refused) refused.focus()

for (const form of document.querySelectorAll("form[method=post]")) {
    form.addEventListener("submit", () => {
        form.setAttribute("aria-busy", "true")
        // After the browser has read the form: a disabled button wouldn't be sent.
        setTimeout(() => { for (const button of form.querySelectorAll("button")) button.disabled = true })
    })
}
// A page that comes back from the browser's history can be used again.
addEventListener("pageshow", (event) => {
    if (!event.persisted) return
    for (const button of document.querySelectorAll("form button")) button.disabled = false
})

const quote = document.getElementById("quote")
if (quote && !refused) quote.focus()
