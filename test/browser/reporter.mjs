// A reporter: a line for each test with its measurements; it appends each result to the file TALLY in the format of bin/testsum.
import { appendFileSync } from 'node:fs';

export default async function* report(source) {
  const count = { pass: 0, fail: 0, skip: 0 };
  for await (const { type, data } of source) {
    if (type === 'test:diagnostic' && data.message.startsWith('measured')) yield `  ${data.message}\n`;
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const result = type === 'test:fail' ? 'fail' : data.skip !== undefined ? 'skip' : 'pass';
    count[result]++;
    yield `${result} ${data.name} (${(data.details.duration_ms / 1000).toFixed(1)} s)${typeof data.skip === 'string' ? `: ${data.skip}` : ''}\n`;
    if (result === 'fail') yield `${data.details.error?.cause?.stack ?? data.details.error}\n`;
    if (process.env.TALLY) appendFileSync(process.env.TALLY, `${result} test/browser ${data.name.replaceAll(/\W+/g, '-')}\n`);
  }
  yield `\n${count.pass} passed, ${count.fail} failed, ${count.skip} skipped\n`;
}
