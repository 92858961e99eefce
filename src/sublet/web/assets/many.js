// Goes on with a list of names, portion by portion, until it is stopped. The form has what is left.
const form = document.getElementById("go-on")
const stop = document.getElementById("stop")
const key = form.elements.idempotency_key.value

// Stopped while the next portion was under way: its page stops too.
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
