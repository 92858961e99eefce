// Signs in with a passkey: gets a challenge from the API, and sends the authenticator's answer.
const button = document.getElementById("passkey")
const problem = document.getElementById("passkey-problem")

async function post(path, members) {
    const answer = await fetch(path, {
        method: "POST", headers: {"content-type": "application/json"}, body: JSON.stringify(members),
    }).catch(() => null)
    const found = await answer?.json().catch(() => null)
    if (!found?.ok) throw new Error(found?.errors?.[0]?.message ?? found?.message ?? "The service can't be reached. Try again.")
    return found
}

async function signIn() {
    problem.hidden = true
    try {
        const asked = await post("/auth/passkeys/challenge", {})
        const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(asked.public_key)
        const credential = await navigator.credentials.get({publicKey})
        await post("/auth/passkeys/confirm", {credential: credential.toJSON()})
        location.assign(button.dataset.next)
    } catch (error) {
        problem.textContent = error.name === "NotAllowedError" ? "No passkey was used. Try again, or get a code by mail." : error.message
        problem.hidden = false
    }
}

if (button && globalThis.PublicKeyCredential && PublicKeyCredential.parseRequestOptionsFromJSON) {
    button.closest("[hidden]").hidden = false
    button.addEventListener("click", signIn)
}
