// Read each answer with generateObject of the AI SDK: the answers come as JSON on stdin, the fields' values go to stdout.
import { text } from 'node:stream/consumers';
import { generateObject, NoObjectGeneratedError } from 'ai';
import { MockLanguageModelV3 } from 'ai/test';
import { z } from 'zod';

const types = { total: z.int(), code: z.union([z.string(), z.int()]), text: z.string() };

async function read(answer) {
  const model = new MockLanguageModelV3({
    doGenerate: async () => ({
      content: [{ type: 'text', text: answer.text }],
      finishReason: { unified: 'stop', raw: 'stop' },
      usage: { inputTokens: { total: 1 }, outputTokens: { total: 1 } },
      warnings: [],
    }),
  });
  const schema = z.object({ [answer.field]: types[answer.field] });
  try {
    const { object } = await generateObject({ model, schema, prompt: '?', maxRetries: 0 });
    return JSON.stringify(object[answer.field]);
  } catch (error) {
    if (NoObjectGeneratedError.isInstance(error)) return null;
    throw error;
  }
}

const results = [];
for (const answer of JSON.parse(await text(process.stdin))) results.push(await read(answer));
console.log(JSON.stringify(results));
