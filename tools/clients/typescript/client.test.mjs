// The client does what its users do, against a real server: PAWL is the program.
import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { promisify } from "node:util";
import { mkdtempSync, mkdirSync, writeFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { client, startRun, getRun, listRuns, getFlow } from "./dist/index.js";

let server, folder, url;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "pawl-client-"));
  mkdirSync(join(folder, "flows"));
  writeFileSync(join(folder, "flows", "greet.yaml"), `flowName: Greet
input: {type: object, required: [name], properties: {name: {type: string}}}
steps:
- {stepName: Hello, uses: exec, with: {shell: "echo hello $NAME", env: {NAME: "\${input.name}"}}}
`);
  server = spawn(process.env.PAWL, ["server", "--listen", "127.0.0.1:0", "--dsn", join(folder, "pawl.db"), "--flows", join(folder, "flows"), "--actions", "exec"], { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  url = await new Promise((found, failed) => {
    const read = (data) => {
      output += data;
      const match = output.match(/http:\/\/127\.0\.0\.1:\d+/);
      if (match) found(match[0]);
    };
    server.stdout.on("data", read);
    server.stderr.on("data", read);
    server.on("exit", () => failed(new Error(output)));
  });
  client.setConfig({ baseUrl: url });
});

after(() => {
  server.kill();
  rmSync(folder, { recursive: true, force: true });
});

test("starts a run and follows it to its end", async () => {
  const started = await startRun({ body: { flow: "Greet", subject: "greeting/a", input: { name: "Ann" } }, throwOnError: true });
  let run = started.data;
  for (const end = Date.now() + 30_000; run.phase !== "Succeeded" && Date.now() < end; ) {
    await new Promise((later) => setTimeout(later, 50));
    run = (await getRun({ path: { id: run.id }, throwOnError: true })).data;
  }
  assert.equal(run.phase, "Succeeded");
  const listed = await listRuns({ query: { flow: "Greet" }, throwOnError: true });
  assert.ok(listed.data.items.some((r) => r.id === run.id));
});

test("the example of the guide starts a run", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ["example.mjs"], { env: { ...process.env, PAWL_SERVER: url } });
  assert.match(stdout, /^(Queued|Running|Succeeded)\n$/);
});

test("a fault comes with its code and remedy", async () => {
  const { error, response } = await getFlow({ path: { name: "Nobody" } });
  assert.equal(response.status, 404);
  assert.ok(error.code && error.remedy, JSON.stringify(error));
});
