// Counts the seconds down until another code can be mailed.
const button = document.getElementById("another")
const label = button.textContent
let seconds = Number(button.dataset.seconds)

function count() {
    button.disabled = seconds > 0
    button.textContent = seconds > 0 ? `Another code in ${seconds} s` : label
    if (seconds-- > 0) setTimeout(count, 1000)
}

count()
