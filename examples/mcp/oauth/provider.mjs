// An identity provider for trying things out: npm oidc-provider, with registration of clients (RFC 7591), resource
// indicators (RFC 8707), and a person, alice, who is logged in and agrees to everything. It prints its address.
//
//	node provider.mjs
//
// On the signal USR1 it signs with another key and publishes no other; what it has issued for refreshing stays good.
//
// The client "agent" with the secret "agent-secret" may have tokens of its own, by the grant client_credentials. All
// tokens are signed JWTs whose claim org is "acme".
import { createServer } from "node:http";
import { generateKeyPairSync } from "node:crypto";

process.env.NODE_ENV ??= "production";
const { Provider } = await import("oidc-provider");

const scopes = ["read", "publish", "run", "control"];
const server = createServer();
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;

// Kept is where all providers of this process keep clients, grants and tokens, each kind under its name.
const kept = new Map();
class Kept {
  constructor(kind) {
    this.kind = kind;
  }
  async upsert(id, payload) {
    kept.set(`${this.kind} ${id}`, payload);
  }
  async find(id) {
    return kept.get(`${this.kind} ${id}`);
  }
  async findByUid(uid) {
    return [...kept].find(([key, payload]) => key.startsWith(`${this.kind} `) && payload.uid === uid)?.[1];
  }
  async consume(id) {
    (await this.find(id)).consumed = Math.floor(Date.now() / 1000);
  }
  async destroy(id) {
    kept.delete(`${this.kind} ${id}`);
  }
  async revokeByGrantId(grant) {
    for (const [key, payload] of kept) {
      if (payload.grantId === grant) kept.delete(key);
    }
  }
}

const settings = {
  adapter: Kept,
  cookies: { keys: ["of-no-use-to-anybody"] },
  clients: [
    {
      client_id: "agent",
      client_secret: "agent-secret",
      grant_types: ["client_credentials"],
      redirect_uris: [],
      response_types: [],
    },
  ],
  scopes: ["openid", ...scopes], // which clients register with
  // Clients of the SDKs register with the scopes that they were asked for first, and may need others later.
  extraClientMetadata: {
    properties: ["any_scope"],
    validator: (_ctx, _name, _value, metadata) => {
      metadata.scope = scopes.join(" ");
    },
  },
  findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  extraTokenClaims: () => ({ org: "acme" }),
  issueRefreshToken: (_ctx, client) => client.grantTypeAllowed("refresh_token"),
  interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: (_ctx, _client, oneOf) => oneOf,
      useGrantedResource: () => true,
      getResourceServerInfo: (_ctx, resource) => ({
        audience: resource,
        scope: scopes.join(" "),
        accessTokenFormat: "jwt",
        accessTokenTTL: 600,
        jwt: { sign: { alg: "RS256" } },
      }),
    },
  },
  ttl: { Interaction: 600, Session: 600, Grant: 600, ClientCredentials: 600, IdToken: 600, RefreshToken: 600 },
};

// make returns a provider with one new key. All providers of this process have the same clients, grants and tokens.
function make(kid) {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const key = { ...privateKey.export({ format: "jwk" }), kid, use: "sig", alg: "RS256" };
  const made = new Provider(issuer, { ...settings, jwks: { keys: [key] } });
  for (const event of ["registration_create.error", "authorization.error", "grant.error", "server_error"]) {
    made.on(event, (_ctx, error) => console.error(error));
  }
  return made;
}

let provider = make("first");
let answer = provider.callback();
process.on("SIGUSR1", () => {
  provider = make("second");
  answer = provider.callback();
  console.log("rotated");
});

// interact logs alice in, and agrees to what a client asks for.
async function interact(req, res) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(req, res);
  if (prompt.name === "login") {
    return provider.interactionFinished(req, res, { login: { accountId: "alice" } }, { mergeWithLastSubmission: false });
  }
  const known = grantId && (await provider.Grant.find(grantId));
  const grant = known || new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope(`openid ${params.scope}`);
  for (const resource of [params.resource].flat().filter(Boolean)) {
    grant.addResourceScope(resource, params.scope);
  }
  const consent = { grantId: await grant.save() };
  return provider.interactionFinished(req, res, { consent }, { mergeWithLastSubmission: true });
}

server.on("request", (req, res) => {
  if (!req.url.startsWith("/interaction/")) {
    return answer(req, res);
  }
  return interact(req, res).catch((error) => {
    console.error(error);
    res.writeHead(500).end(String(error));
  });
});
console.log("listening on", issuer);
