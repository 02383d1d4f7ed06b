// Command fields writes docs/reference/rollout-fields.md: every field of a Rollout with what it does, from the
// comments and markers of its Go types. `make generate` runs it, and `make fresh` fails when the page is outdated.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

//go:generate go run . -root ../..

const intro = `# Fields of a Rollout

Generated from the types of the API: kind Rollout of pawl.dev/v1alpha1. A field with a star is required. Times are written as
90s, 1m30s or 24h. [Rollouts](../guide/rollouts.md) tells what to do with them.
`

// sections are the types with a table, in the order of the page.
var sections = []struct{ path, typ string }{
	{"spec", "RolloutSpec"}, {"spec.targetRef, spec.sourceRef", "WorkloadRef"},
	{"spec.rolloutPlan", "RolloutPlan"}, {"rolloutBatches[]", "RolloutBatch"}, {"rolloutBatches[].pods", "RolloutPods"}, {"rollback", "RolloutRollback"},
	{"rolloutWebhooks[], batchRolloutWebhooks[]", "RolloutHook"}, {"tls", "RolloutTLS"}, {"secretRef", "RolloutSecretRef"},
	{"canaryMetric[]", "RolloutMetric"}, {"canaryMetric[].metricsRange", "RolloutRange"}, {"canaryMetric[].provider", "RolloutMetricProvider"},
	{"canaryMetric[].provider.prometheus", "RolloutPrometheus"}, {"canaryMetric[].templateRef", "RolloutTemplateRef"},
	{"gates[]", "RolloutGate"}, {"probes[]", "RolloutProbe"}, {"exec", "RolloutExec"}, {"http", "RolloutHTTP"}, {"tcp", "RolloutTCP"},
	{"disruption", "RolloutDisruption"}, {"disruption.quorum", "RolloutQuorum"}, {"order", "RolloutOrder"}, {"order.handover", "RolloutHandover"},
	{"status", "RolloutStatus"},
}

func main() {
	root := flag.String("root", "..", "root of the repository")
	flag.Parse()
	text, err := page(filepath.Join(*root, "kube", "api", "v1alpha1"))
	if err == nil {
		err = os.WriteFile(filepath.Join(*root, filepath.FromSlash("docs/reference/rollout-fields.md")), []byte(text), 0o644) //nolint:gosec // a page of the repository
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fields:", err)
		os.Exit(1)
	}
}

// declared is one type with its comment.
type declared struct {
	doc  string
	spec *ast.TypeSpec
}

func (d declared) fields() []*ast.Field {
	if s, ok := d.spec.Type.(*ast.StructType); ok {
		return s.Fields.List
	}
	return nil
}

func page(dir string) (string, error) {
	types, err := typesIn(dir)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(intro)
	done := map[string]bool{}
	section := func(path, name string) error {
		t, ok := types[name]
		if !ok || t.fields() == nil {
			return fmt.Errorf("there is no struct %s", name)
		}
		done[name] = true
		b.WriteString("\n## " + path + "\n\n" + table(t, types))
		return nil
	}
	for _, s := range sections {
		if err := section(s.path, s.typ); err != nil {
			return "", err
		}
	}
	// The structs below the status follow in the order in which they are met.
	for queue := []string{"RolloutStatus"}; len(queue) > 0; queue = queue[1:] {
		for _, f := range types[queue[0]].fields() {
			below := strings.TrimLeft(strings.TrimPrefix(typeOf(f.Type), "map[string]"), "*[]")
			if t, ok := types[below]; !ok || t.fields() == nil || done[below] {
				continue
			}
			if err := section("status."+jsonName(f)+suffix(f.Type), below); err != nil {
				return "", err
			}
			queue = append(queue, below)
		}
	}
	return b.String(), nil
}

func suffix(e ast.Expr) string {
	switch e.(type) {
	case *ast.MapType, *ast.ArrayType:
		return "[]"
	}
	return ""
}

// typesIn are the types of the files of Rollouts.
func typesIn(dir string) (map[string]declared, error) {
	files, err := filepath.Glob(filepath.Join(dir, "rollout*_types.go"))
	if err != nil {
		return nil, err
	}
	types := map[string]declared{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range parsed.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, s := range g.Specs {
				spec := s.(*ast.TypeSpec)
				types[spec.Name.Name] = declared{raw(g.Doc) + raw(spec.Doc), spec}
			}
		}
	}
	return types, nil
}

// raw is a comment with its markers, which ast.CommentGroup.Text leaves out.
func raw(c *ast.CommentGroup) string {
	if c == nil {
		return ""
	}
	var b strings.Builder
	for _, line := range c.List {
		b.WriteString(strings.TrimPrefix(strings.TrimPrefix(line.Text, "//"), " ") + "\n")
	}
	return b.String()
}

func table(t declared, types map[string]declared) string {
	var b strings.Builder
	b.WriteString("| field | type | meaning | limits |\n|---|---|---|---|\n")
	before := "" // the comment of a field that is about the next ones too
	for _, f := range t.fields() {
		if len(f.Names) == 0 {
			continue
		}
		text, limits := split(raw(f.Doc) + raw(f.Comment))
		typ := typeOf(f.Type)
		of, named := types[strings.TrimLeft(strings.TrimPrefix(typ, "map[string]"), "[]")]
		about, own := split(of.doc)
		switch {
		case named && of.fields() == nil: // a named text has limits of its own
			limits = append(limits, own...)
		case text == "" && regexp.MustCompile(`\b`+f.Names[0].Name+`\b`).MatchString(before):
			text = before
		case named && text == "":
			text = strings.TrimPrefix(about, of.spec.Name.Name+" ")
		}
		if text == "" && strings.Contains(before, f.Names[0].Name) {
			text = before
		}
		before = text
		star := ""
		if !strings.Contains(f.Tag.Value, "omitempty") && !strings.Contains(raw(f.Doc), "+optional") {
			star = "*"
		}
		if rest, ok := strings.CutPrefix(text, f.Names[0].Name+" "); ok && !relative.MatchString(rest) {
			text = strings.TrimPrefix(strings.TrimPrefix(rest, "is "), "are ")
		}
		fmt.Fprintf(&b, "| `%s`%s | %s | %s | %s |\n", jsonName(f), star, shown(typ), cell(upper(text)), cell(strings.Join(limits, ", ")))
	}
	if _, rules := split(t.doc); len(rules) > 0 {
		b.WriteString("\nThe API server refuses what breaks one of these: " + strings.Join(rules, "; ") + ".\n")
	}
	return b.String()
}

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

func jsonName(f *ast.Field) string {
	tag := regexp.MustCompile(`json:"([^",]*)`).FindStringSubmatch(f.Tag.Value)
	return tag[1]
}

func typeOf(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return typeOf(t.X)
	case *ast.ArrayType:
		return "[]" + typeOf(t.Elt)
	case *ast.MapType:
		return "map[string]" + typeOf(t.Value)
	case *ast.SelectorExpr:
		return t.Sel.Name
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// shown is a type in the words of a manifest.
func shown(typ string) string {
	switch {
	case strings.HasPrefix(typ, "[]"):
		return "list of " + shown(typ[2:])
	case strings.HasPrefix(typ, "map[string]"):
		return "map of " + shown(typ[len("map[string]"):])
	}
	switch typ {
	case "int32", "int64":
		return "number"
	case "bool":
		return "true or false"
	case "IntOrString":
		return "number or text"
	case "RolloutDuration", "RolloutDeadline":
		return "time"
	case "RolloutTime":
		return "moment"
	case "string", "RolloutFailurePolicy":
		return "text"
	case "Condition":
		return "condition"
	}
	return "object"
}

// relative words need the name before them: Name of the hook.
var relative = regexp.MustCompile(`^(of|in|with|that|from|between|which|and|when|under|so) `)

var marker = regexp.MustCompile(`^\+kubebuilder:validation:(?:(items):)?(\w+)(?::|=)?(.*)$`)

var message = regexp.MustCompile(`message="([^"]*)"`)

// split separates a comment and what its markers limit.
func split(doc string) (text string, limits []string) {
	var words []string
	for line := range strings.Lines(doc) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "+") {
			words = append(words, line)
			continue
		}
		m := marker.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		of := ""
		if m[1] != "" {
			of = "each "
		}
		value := strings.Trim(m[3], "`\"")
		switch m[2] {
		case "Minimum":
			limits = append(limits, of+"at least "+value)
		case "Maximum":
			limits = append(limits, of+"at most "+value)
		case "MinItems":
			limits = append(limits, "at least "+value+" entries")
		case "MaxItems":
			limits = append(limits, "at most "+value+" entries")
		case "MaxProperties":
			limits = append(limits, "at most "+value+" entries")
		case "MinProperties":
			limits = append(limits, "at least "+value+" of the fields")
		case "MaxLength":
			if value == "64" || value == "4" { // of times and of amounts: their form says it
				continue
			}
			limits = append(limits, of+"at most "+value+" bytes")
		case "Enum":
			value = strings.TrimPrefix(value, ";")
			limits = append(limits, "`"+strings.ReplaceAll(strings.Trim(strings.ReplaceAll(value, "\"", ""), ";"), ";", "`, `")+"`")
		case "XValidation":
			if said := message.FindStringSubmatch(line); said != nil {
				limits = append(limits, said[1])
			}
		}
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " "), limits
}
