// Send zod's types with the AI SDK: node ai_sdk.mjs prints the declared JSON Schemas; node ai_sdk.mjs URL NAME sends one.
import { createOpenAI } from '@ai-sdk/openai';
import { generateObject } from 'ai';
import { z } from 'zod';

const cat = z.object({ kind: z.literal('cat'), lives: z.int() });
const dog = z.object({ kind: z.literal('dog'), name: z.string() });
const tree = z.object({
  value: z.int(),
  get children() {
    return z.array(tree);
  },
});
const address = z.object({ street: z.string() }).meta({ description: 'Where someone lives.' });

// named as in shapes.py, and in its order; zod has no sets in JSON Schema and no decimal numbers
const shapes = {
  Plain: z.object({ name: z.string(), total: z.number() }),
  Described: z.object({
    home: address.describe('The address of the customer.'),
    name: z.string().describe('The full name.'),
  }),
  Default: z.object({ name: z.string(), count: z.int().default(3) }),
  Optional: z.object({ name: z.string(), note: z.string().nullable().default(null) }),
  Pattern: z.object({ code: z.string().regex(/^[A-Z]{2}-[0-9]{4}$/) }),
  Lengths: z.object({ code: z.string().min(2).max(8) }),
  Bounds: z.object({ share: z.number().gte(0).lt(1) }),
  Multiple: z.object({ count: z.int().multipleOf(5) }),
  Dates: z.object({ day: z.iso.date() }),
  Enum: z.object({ color: z.enum(['red', 'blue']) }),
  Const: z.object({ version: z.literal(1) }),
  Scalars: z.object({ value: z.union([z.string(), z.int()]) }),
  Tagged: z.object({ pet: z.discriminatedUnion('kind', [cat, dog]) }),
  Counts: z.object({ counts: z.record(z.string(), z.int()) }),
  Free: z.object({ more: z.record(z.string(), z.any()) }),
  Bounded: z.object({ tags: z.array(z.string()).min(1).max(3) }),
  Unique: z.object({ tags: z.array(z.string()).meta({ uniqueItems: true }) }),
  Pair: z.object({ point: z.tuple([z.number(), z.string()]) }),
  Tree: tree,
  Price: z.object({ price: z.union([z.number(), z.string().regex(/^-?[0-9]+(\.[0-9]+)?$/)]) }),
};

const [url, name] = process.argv.slice(2);
if (url === undefined) {
  const declared = Object.entries(shapes).map(([key, shape]) => [key, z.toJSONSchema(shape, { io: 'input' })]);
  console.log(JSON.stringify(Object.fromEntries(declared)));
} else {
  const model = createOpenAI({ baseURL: `${url}/v1`, apiKey: 'any' }).chat('gpt-5-mini');
  try {
    await generateObject({ model, schema: shapes[name], prompt: 'An example, please.', maxRetries: 0 });
  } catch {
    process.exit(1);
  }
}
