// What a browser does for a person who has to log in: it follows redirections, and keeps cookies.
//
// authorize returns the query of the URL to which the provider sends the browser back.
export async function authorize(url, redirectURL) {
  const cookies = new Map();
  for (let hops = 0; hops < 20; hops++) {
    const res = await fetch(url, {
      redirect: "manual",
      headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; ") },
    });
    for (const line of res.headers.getSetCookie()) {
      const [pair] = line.split(";");
      const at = pair.indexOf("=");
      cookies.set(pair.slice(0, at), pair.slice(at + 1));
    }
    const location = res.headers.get("location");
    if (!location) {
      throw new Error(`${url} answers ${res.status}: ${await res.text()}`);
    }
    url = new URL(location, url);
    if (url.href.startsWith(redirectURL)) {
      return url.searchParams;
    }
  }
  throw new Error("the provider sends the browser in circles");
}

// Person is the OAuthClientProvider of the SDKs, for a client that keeps everything in memory. It counts how often the
// person was asked, and for what.
export class Person {
  redirectUrl = "http://127.0.0.1:9/callback";
  asked = [];
  clientMetadata = {
    client_name: "a test",
    redirect_uris: [this.redirectUrl],
    grant_types: ["authorization_code"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  };

  clientInformation = () => this.client;
  saveClientInformation = (client) => void (this.client = client);
  tokens = () => this.held;
  saveTokens = (tokens) => void (this.held = tokens);
  codeVerifier = () => this.verifier;
  discoveryState = () => this.discovered;
  saveDiscoveryState = (state) => void (this.discovered = state);
  saveCodeVerifier = (verifier) => void (this.verifier = verifier);

  async redirectToAuthorization(url) {
    this.asked.push(url.searchParams.get("scope"));
    this.resource = url.searchParams.get("resource");
    this.answer = await authorize(url, this.redirectUrl);
    if (!this.answer.get("code")) {
      throw new Error(`the provider refuses: ${this.answer}`);
    }
  }

  // trying does something, and again once the person was asked and has agreed.
  async trying(transport, unauthorized, act) {
    for (let tries = 0; ; tries++) {
      try {
        return await act();
      } catch (error) {
        if (!(error instanceof unauthorized) || tries === 2) {
          throw error;
        }
        await transport().finishAuth(this.answer.get("code"), this.answer.get("iss"));
      }
    }
  }
}
