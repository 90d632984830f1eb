package process

import (
	"sync"
	"time"
)

// Group is a set of children of which none may end.
type Group struct {
	mutex    sync.Mutex
	children []*Child
	failed   chan error
}

// NewGroup returns an empty group.
func NewGroup() *Group { return &Group{failed: make(chan error, 1)} }

// Add puts a started child under watch; it passes through the error of starting it.
func (g *Group) Add(child *Child, err error) error {
	if err != nil {
		return err
	}
	g.mutex.Lock()
	g.children = append(g.children, child)
	g.mutex.Unlock()
	go func() {
		<-child.Done()
		select {
		case g.failed <- child.Err():
		default:
		}
	}()
	return nil
}

// Failed delivers the first end of a child.
func (g *Group) Failed() <-chan error { return g.failed }

// Stop ends the children, the last one first: nobody loses what it depends on, except that
// the patience is for all of them together.
func (g *Group) Stop(patience time.Duration) {
	deadline := time.Now().Add(patience)
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for index := len(g.children) - 1; index >= 0; index-- {
		g.children[index].Stop(max(time.Until(deadline), 100*time.Millisecond))
	}
}
