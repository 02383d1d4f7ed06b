package utils_test

import (
	"maps"
	"testing"

	"github.com/pawl-dev/pawl/compat/utils"
)

func TestMapMerge(t *testing.T) {
	first, second := map[string]any{"a": 1, "b": 1}, map[string]any{"b": 2, "c": 2}
	if got, want := utils.MapMerge(first, second), (map[string]any{"a": 1, "b": 2, "c": 2}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if first["b"] != 1 || len(second) != 2 {
		t.Errorf("the arguments have changed: %v, %v", first, second)
	}
}

func TestMaxIntSlice(t *testing.T) {
	for _, tt := range []struct {
		in   []int
		want int
	}{{nil, 0}, {[]int{-3, -1, -2}, -1}, {[]int{2, 7, 5}, 7}} {
		if got := utils.MaxIntSlice(tt.in); got != tt.want {
			t.Errorf("MaxIntSlice(%v) = %d, want %d", tt.in, got, tt.want)
		}
	}
}

func TestContainsString(t *testing.T) {
	if list := []string{"a", "b"}; !utils.ContainsString(list, "b") || utils.ContainsString(list, "c") || utils.ContainsString(nil, "") {
		t.Error("ContainsString is wrong")
	}
}
