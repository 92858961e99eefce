// Solves the proof of work of a sign-up while the person fills in the form (ALTCHA, version 2: PBKDF2 with SHA-256).
const field = document.getElementById("challenge")

const bytesOf = (hex) => Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16))
const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")

async function derive(parameters, counter) {
    const nonce = bytesOf(parameters.nonce)
    const password = new Uint8Array(nonce.length + 4)
    password.set(nonce)
    new DataView(password.buffer).setUint32(nonce.length, counter)
    const key = await crypto.subtle.importKey("raw", password, "PBKDF2", false, ["deriveBits"])
    const options = {name: "PBKDF2", hash: "SHA-256", salt: bytesOf(parameters.salt), iterations: parameters.cost}
    return hexOf(new Uint8Array(await crypto.subtle.deriveBits(options, key, 8 * parameters.keyLength)))
}

async function solve() {
    const {challenge} = await (await fetch("/auth/challenge")).json()
    const started = performance.now()
    for (let counter = 0; ; counter++) {
        const derivedKey = await derive(challenge.parameters, counter)
        if (derivedKey.startsWith(challenge.parameters.keyPrefix)) {
            const solution = {counter, derivedKey, time: Math.round(performance.now() - started)}
            field.value = btoa(JSON.stringify({challenge, solution}))
            return
        }
    }
}

// The form also works without a solution, but the API then accepts fewer sign-ups from one network.
if (field && globalThis.crypto && crypto.subtle) addEventListener("input", () => solve().catch(() => {}), {once: true})
