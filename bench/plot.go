package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The plot: a panel for each figure and store, a line for each number of
// finished runs, runs at once to the right in powers of ten.
const (
	panelWidth, panelHeight = 280, 190
	marginLeft, marginTop   = 62, 66
	gapX, gapY              = 72, 84
)

type panel struct {
	title, store, key string
	column, row       int
}

var panels = []panel{
	{"SQLite: steps per second", "sqlite", "stepsPerSecond", 0, 0},
	{"SQLite: bytes per step", "sqlite", "bytesPerStep", 1, 0},
	{"SQLite: resident peak, MiB", "sqlite", "residentPeakMiB", 2, 0},
	{"memory: steps per second", "memory", "stepsPerSecond", 0, 1},
	{"memory: a run, p50 ms", "memory", "latencyP50Ms", 1, 1},
	{"memory: resident peak, MiB", "memory", "residentPeakMiB", 2, 1},
}

// From light to dark with the number of finished runs.
var shades = []string{"#74add1", "#2b6cb0", "#152a4e"}

// growthPlot draws the growth table as SVG.
func growthPlot(r results) string {
	width := marginLeft + 3*panelWidth + 2*gapX + 24
	height := marginTop + 2*panelHeight + gapY + 52
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui, sans-serif" font-size="12" fill="#333">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<title>Pawl: growth with runs at once and with finished runs</title>`+"\n")
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	x := marginLeft
	fmt.Fprintf(&b, `<text x="%d" y="26">finished runs before:</text>`+"\n", x)
	for i, former := range growthFormer {
		at := x + 140 + 110*i
		fmt.Fprintf(&b, `<line x1="%d" y1="22" x2="%d" y2="22" stroke="%s" stroke-width="2"/><text x="%d" y="26">%s</text>`+"\n", at, at+24, shades[i], at+30, number("%.0f", float64(former)))
	}
	for _, p := range panels {
		p.render(&b, r)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// point is a point of a line: concurrent runs and the figure.
type point struct{ x, y float64 }

func (p panel) points(r results, former int) []point {
	var all []point
	for _, atOnce := range growthAtOnce {
		if v := r.value(growthName(p.store, atOnce, former), p.key); !math.IsNaN(v) {
			all = append(all, point{float64(atOnce), v})
		}
	}
	return all
}

func (p panel) render(b *strings.Builder, r results) {
	left := float64(marginLeft + p.column*(panelWidth+gapX))
	top := float64(marginTop + p.row*(panelHeight+gapY))
	most := 0.0
	lines := make([][]point, len(growthFormer))
	for i, former := range growthFormer {
		lines[i] = p.points(r, former)
		for _, pt := range lines[i] {
			most = max(most, pt.y)
		}
	}
	ceiling := ceilingOf(most)
	decades := math.Log10(float64(growthAtOnce[len(growthAtOnce)-1]))
	place := func(pt point) (float64, float64) {
		return left + math.Log10(pt.x)/decades*panelWidth, top + panelHeight - pt.y/ceiling*panelHeight
	}
	fmt.Fprintf(b, `<text x="%.0f" y="%.0f" font-weight="600">%s</text>`+"\n", left, top-12, html.EscapeString(p.title))
	for i := range 5 {
		v := ceiling * float64(i) / 4
		_, y := place(point{1, v})
		fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#e2e2e2"/><text x="%.1f" y="%.1f" text-anchor="end" font-size="11" fill="#666">%s</text>`+"\n",
			left, y, left+panelWidth, y, left-6, y+4, number("%v", v))
	}
	for _, atOnce := range growthAtOnce {
		x, y := place(point{float64(atOnce), 0})
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle" font-size="11" fill="#666">%s</text>`+"\n", x, y+16, number("%.0f", float64(atOnce)))
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle" font-size="11" fill="#666">runs at once</text>`+"\n", left+panelWidth/2, top+panelHeight+32)
	for i, line := range lines {
		var path []string
		for _, pt := range line {
			x, y := place(pt)
			path = append(path, fmt.Sprintf("%.1f,%.1f", x, y))
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"><title>%s runs at once, after %s: %s</title></circle>`+"\n", x, y, shades[i],
				number("%.0f", pt.x), number("%.0f", float64(growthFormer[i])), number("%.1f", pt.y))
		}
		if len(path) > 1 {
			fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(path, " "), shades[i])
		}
	}
}

// ceilingOf returns the round number at or above v whose quarters are round too.
func ceilingOf(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8} {
		if v <= step*power {
			return step * power
		}
	}
	return 10 * power
}
