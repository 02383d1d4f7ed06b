import { client, startRun, getRun } from "@pawl-dev/client";

client.setConfig({ baseUrl: process.env.PAWL_SERVER ?? "http://127.0.0.1:7295", auth: () => process.env.PAWL_TOKEN });
const { data, error } = await startRun({ body: { flow: "Greet", subject: "greeting/a", input: { name: "Ann" } } });
if (error) throw new Error(`${error.code}: ${error.detail} ${error.remedy}`);
console.log((await getRun({ path: { id: data.id } })).data.phase);
