package program_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var joined = regexp.MustCompile(`"\s*\n\s*"`)

// sourceOf returns a file at a tag, with strings over several lines in one piece.
func sourceOf(t *testing.T, folder, tag, file string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "--git-dir", folder, "show", tag+":"+file).Output()
	if err != nil {
		t.Fatalf("%s at %s: %v", file, tag, err)
	}
	if file == "fdbmonitor/fdbmonitor.cpp" && strings.HasPrefix(tag, "7.4.") { // most of it has moved
		out = append(out, sourceOf(t, folder, tag, "fdbmonitor/fdbmonitor_lib.cpp")+sourceOf(t, folder, tag, "fdbmonitor/fdbmonitor.h")...)
	}
	text := joined.ReplaceAllString(string(out), "")
	return strings.ReplaceAll(text, `\"`, `"`)
}
