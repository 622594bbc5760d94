// Read an invoice with the AI SDK: node ai_sdk.mjs URL whole|streamed PROMPT; prints {"value": …} or {"error": NAME}.
import { createOpenAI } from '@ai-sdk/openai';
import { generateObject, streamObject } from 'ai';
import { z } from 'zod';

const [url, way, prompt] = process.argv.slice(2);
const model = createOpenAI({ baseURL: `${url}/v1`, apiKey: 'any' }).chat('gpt-5-mini');
const schema = z.strictObject({ name: z.string(), total: z.number() });

async function read() {
  if (way === 'whole') return (await generateObject({ model, schema, prompt })).object;
  const result = streamObject({ model, schema, prompt, onError: () => {} });
  let last = null;
  for await (const part of result.partialObjectStream) last = part;
  if (way === 'partial') return last;
  return await result.object;
}

let shown;
try {
  shown = { value: await read() };
} catch (error) {
  shown = { error: (error.name ?? 'Error').replace(/\W/g, '') };
}
process.stdout.write(JSON.stringify(shown), () => process.exit(0));
