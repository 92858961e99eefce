// Sends the form with the names that are left, 0.3 seconds after each portion, until the person presses Stop.
const form = document.getElementById("go-on")
const stop = document.getElementById("stop")
const key = form.elements.idempotency_key.value

// If the person pressed Stop while a portion was being registered, the page with its results must stop too.
if (sessionStorage.getItem("stopped") !== key) {
    const timer = setTimeout(() => form.requestSubmit(form.elements.confirm), 300)
    stop.parentElement.hidden = false
    stop.addEventListener("click", () => {
        clearTimeout(timer)
        sessionStorage.setItem("stopped", key)
        stop.parentElement.hidden = true
    })
}
form.elements.confirm.addEventListener("click", (event) => {
    if (event.isTrusted) sessionStorage.removeItem("stopped")
})
