// A form made of a JSON Schema: a field for each property of an object; what has no field of its own is JSON.
import { html, make } from './dom.js';

let number = 0;
const numbers = ['integer', 'number'];

// Form has the elements of a schema as view, and their value. Fields that a person leaves empty are left out, so that the
// defaults of the schema count.
export class Form {
  constructor(schema, name) {
    this.id = `${name}-${++number}`;
    this.fields = schema?.type === 'object' && schema.properties ? Object.entries(schema.properties).map(([key, s]) => this.field(key, s, (schema.required ?? []).includes(key))).sort((x, y) => y.required - x.required) : [];
    this.whole = this.fields.length ? null : this.text({ id: this.id, placeholder: 'JSON; empty: none' });
    this.view = this.whole ? html`<label for=${this.id}>Input, as JSON</label>${this.whole}` : this.fields.map((f) => html`<label for=${f.id}>${f.key}${f.required ? '' : ' (optional)'}</label>${f.element}${f.help ? html`<p class="help">${f.help}</p>` : null}`);
  }

  field(key, schema, required) {
    const id = `${this.id}-${key}`;
    const usual = schema.default === undefined ? undefined : `default: ${typeof schema.default === 'string' ? schema.default : JSON.stringify(schema.default)}`;
    const type = schema.enum ? 'enum' : Array.isArray(schema.type) ? 'json' : schema.type ?? 'json';
    return { key, id, required, type, help: schema.description, element: this.element(type, schema, { id, required: required && type !== 'boolean', placeholder: usual }) };
  }

  element(type, schema, at) {
    const choice = (values) => make('select', { id: at.id, required: at.required }, html`<option value="">${at.placeholder ?? (at.required ? 'choose one' : 'none')}</option>`, values.map((v) => html`<option value=${JSON.stringify(v)}>${String(v)}</option>`));
    switch (type) {
      case 'enum': return choice(schema.enum);
      case 'boolean': return choice([true, false]);
      case 'integer': case 'number': return make('input', { ...at, type: 'number', step: type === 'integer' ? '1' : 'any', min: schema.minimum, max: schema.maximum });
      case 'string': return make('input', { ...at, maxlength: schema.maxLength, autocomplete: 'off' });
      default: return this.text({ ...at, placeholder: at.placeholder ?? 'JSON' });
    }
  }

  text(at) { return make('textarea', { ...at, rows: '3', spellcheck: false }); }

  // value returns the input. A text that is no JSON where JSON is needed is an error with the name of its field.
  value() {
    if (this.whole) return this.whole.value.trim() ? parse('input', this.whole.value) : undefined;
    const given = this.fields.filter((f) => f.element.value !== '');
    return Object.fromEntries(given.map((f) => [f.key, f.type === 'string' ? f.element.value : numbers.includes(f.type) ? Number(f.element.value) : parse(f.key, f.element.value)]));
  }
}

function parse(key, text) {
  try { return JSON.parse(text); } catch (error) { throw new Error(`${key}: ${error.message}`); }
}
