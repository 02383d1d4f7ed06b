package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"k8s.io/client-go/util/jsonpath"

	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The forms of -o that are text; wide shows all columns of tables.
const (
	textForm = "text"
	wideForm = "wide"
)

// The forms of -o that take an argument, as kubectl has them.
const (
	jsonPathForm = "jsonpath="       // a template: {.items[*].id}
	columnsForm  = "custom-columns=" // HEAD:PATH,…
)

// OutputForms are what -o may be.
const OutputForms = "text, wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns=HEAD:PATH,…"

// checkOutput refuses a form of -o: USAGE_WRONG.
func checkOutput(output string) error {
	if slices.Contains([]string{"", textForm, wideForm, "json", "yaml", "name"}, output) {
		return nil
	}
	if template, ok := strings.CutPrefix(output, jsonPathForm); ok {
		_, err := parsePath(template)
		return err
	}
	if text, ok := strings.CutPrefix(output, columnsForm); ok {
		_, err := parseColumns(text)
		return err
	}
	return Usage.Errorf("-o %s: it is %s", output, OutputForms)
}

// emitPaths prints parts of a result; it returns false if -o does not ask for parts.
func (a *App) emitPaths(v any) (bool, error) {
	template, isPath := strings.CutPrefix(a.Flags.Output, jsonPathForm)
	text, isTable := strings.CutPrefix(a.Flags.Output, columnsForm)
	if !isPath && !isTable {
		return false, nil
	}
	data, err := plainOf(v)
	if err != nil {
		return true, err
	}
	if isTable {
		columns, err := parseColumns(text)
		if err != nil {
			return true, err
		}
		table, err := columns.table(data)
		if err == nil {
			_, err = io.WriteString(a.Out, table.Text(a.Style(a.Out)))
		}
		return true, err
	}
	path, err := parsePath(template)
	if err != nil {
		return true, err
	}
	var b bytes.Buffer
	if err := path.Execute(&b, data); err != nil {
		return true, Usage.Errorf("-o %s%s: %w", jsonPathForm, template, err)
	}
	_, err = a.Out.Write(b.Bytes())
	return true, err
}

// plainOf is a result as maps, lists, texts and numbers.
func plainOf(v any) (any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return runtype.Decode(data)
}

// parsePath reads a JSONPath template. A path alone needs no braces: .metadata.name is {.metadata.name}.
func parsePath(template string) (*jsonpath.JSONPath, error) {
	text := template
	if !strings.Contains(text, "{") {
		if !strings.HasPrefix(text, ".") && !strings.HasPrefix(text, "[") && !strings.HasPrefix(text, "$") {
			text = "." + text
		}
		text = "{" + text + "}"
	}
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(text); err != nil {
		return nil, Usage.Errorf("JSONPath %s: %w", template, err)
	}
	return path, nil
}

type column struct {
	head string
	path *jsonpath.JSONPath
}

type columns []column

func parseColumns(text string) (columns, error) {
	var all columns
	for part := range strings.SplitSeq(text, ",") {
		head, path, ok := strings.Cut(part, ":")
		if !ok || head == "" || path == "" {
			return nil, Usage.Errorf("-o %s%s: %q is no HEAD:PATH", columnsForm, text, part)
		}
		p, err := parsePath(path)
		if err != nil {
			return nil, err
		}
		all = append(all, column{head, p})
	}
	return all, nil
}

// table has a row for each item of a list, or one.
func (c columns) table(data any) (view.Table, error) {
	items := []any{data}
	if object, ok := data.(map[string]any); ok {
		if all, ok := object["items"].([]any); ok {
			items = all
		}
	}
	var rows [][]string
	for _, item := range items {
		var row []string
		for _, one := range c {
			values, err := valuesAt(one.path, item)
			if err != nil {
				return view.Table{}, err
			}
			texts := NamesOf(values, cellText)
			if len(texts) == 0 {
				texts = []string{"<none>"}
			}
			row = append(row, strings.Join(texts, ","))
		}
		rows = append(rows, row)
	}
	columns := make([]view.Column[[]string], len(c))
	for i, one := range c {
		columns[i] = view.Column[[]string]{Head: one.head, Cell: func(row []string) string { return row[i] }}
	}
	return view.TableOf(rows, columns), nil
}

func valuesAt(path *jsonpath.JSONPath, data any) ([]any, error) {
	found, err := path.FindResults(data)
	if err != nil {
		return nil, Usage.Errorf("%w", err)
	}
	var values []any
	for _, v := range slices.Concat(found...) {
		if v.IsValid() && v.CanInterface() && !(v.Kind() == reflect.Interface && v.IsNil()) {
			values = append(values, v.Interface())
		}
	}
	return values, nil
}

// cellText is a value in a table.
func cellText(v any) string {
	switch v.(type) {
	case map[string]any, []any:
		if data, err := json.Marshal(v); err == nil {
			return string(data)
		}
	}
	return fmt.Sprint(v)
}

// SortBy sorts a list by a JSONPath into its items: numbers by size, texts by letters, times by age; items without a value
// come last. An empty path keeps the order.
func SortBy[T any](items []T, path string) error {
	if path == "" {
		return nil
	}
	p, err := parsePath(path)
	if err != nil {
		return err
	}
	type keyed struct {
		item T
		key  any // nil: none
	}
	all := make([]keyed, len(items))
	for i, item := range items {
		data, err := plainOf(item)
		if err != nil {
			return err
		}
		values, err := valuesAt(p, data)
		if err != nil {
			return err
		}
		all[i].item = item
		if len(values) > 0 {
			all[i].key = values[0]
		}
	}
	if len(all) > 0 && !slices.ContainsFunc(all, func(k keyed) bool { return k.key != nil }) {
		return Usage.Errorf("--sort-by %s: no entry has a value there; -o json shows what they have", path)
	}
	slices.SortStableFunc(all, func(x, y keyed) int { return compareKeys(x.key, y.key) })
	for i := range all {
		items[i] = all[i].item
	}
	return nil
}

func compareKeys(x, y any) int {
	if x == nil || y == nil {
		return cmp.Compare(btoi(x == nil), btoi(y == nil))
	}
	xn, xok := number(x)
	yn, yok := number(y)
	if xok && yok {
		return cmp.Compare(xn, yn)
	}
	return cmp.Compare(cellText(x), cellText(y))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}
