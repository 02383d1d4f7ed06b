// Package live draws on a terminal, and draws over it when there is something else to show or the terminal has another
// size:
//
//	s := live.Open(os.Stdout, style)
//	defer s.Close()
//	s.Show(func(style view.Style) []string { return view.Tree(r, time.Now(), style) })
//
// Bubble Tea renders: it knows how terminals wrap, scroll and resize.
package live

import (
	"io"
	"strings"
	"sync"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/pawl-dev/pawl/view"
)

// Drawing returns lines that fit the width and the height of the style.
type Drawing func(style view.Style) []string

// Screen is a drawing at the end of what a terminal shows. While it is open nothing else may be printed.
type Screen struct {
	program *tea.Program
	done    chan struct{}
	close   sync.Once
}

// Open begins a drawing on a terminal, in a style whose size is that of the terminal.
func Open(terminal io.Writer, style view.Style) *Screen {
	s := &Screen{done: make(chan struct{}), program: tea.NewProgram(drawn{style: style, draw: func(view.Style) []string { return nil }},
		tea.WithOutput(terminal), tea.WithInput(nil), tea.WithoutSignalHandler(), tea.WithColorProfile(colorprofile.ANSI))}
	go func() {
		defer close(s.done)
		_, _ = s.program.Run() // a terminal that is gone shows nothing; the command goes on
	}()
	return s
}

// Show draws over what was drawn before.
func (s *Screen) Show(d Drawing) { s.program.Send(d) }

// Close leaves the last drawing on the terminal.
func (s *Screen) Close() {
	s.close.Do(s.program.Quit)
	<-s.done
}

// drawn is what the terminal shows. It is a tea.Model.
type drawn struct {
	style view.Style
	draw  Drawing
}

func (drawn) Init() tea.Cmd { return nil }

func (d drawn) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	switch m := m.(type) {
	case Drawing:
		d.draw = m
	case tea.WindowSizeMsg:
		d.style.Width, d.style.Height = m.Width, m.Height
	}
	return d, nil
}

func (d drawn) View() tea.View {
	return tea.NewView(strings.Join(d.draw(d.style), "\n"))
}
