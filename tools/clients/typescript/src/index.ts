// client is what the functions call with: client.setConfig({ baseUrl, auth: () => token }). createClient makes others.
export { client } from "./generated/client.gen.js";
export { createClient, createConfig } from "./generated/client/index.js";
export * from "./generated/index.js";
