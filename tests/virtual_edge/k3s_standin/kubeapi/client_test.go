package kubeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
)

func testClient(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &Client{base: server.URL, http: server.Client()}
}

func TestAnswersOtherThan2xxAreStatusErrors(t *testing.T) {
	client := testClient(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "gone", http.StatusNotFound) })
	err := client.Get(context.Background(), "/x", nil)
	if !IsCode(err, http.StatusNotFound) || IsCode(err, http.StatusConflict) || err.Error() != "404 Not Found: gone" {
		t.Errorf("got %v", err)
	}
	if IsCode(errors.New("other"), http.StatusNotFound) {
		t.Error("another error counts as 404")
	}
}

func TestPatchSendsAMergePatch(t *testing.T) {
	var method, kind, body string
	client := testClient(t, func(_ http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		method, kind, body = r.Method, r.Header.Get("Content-Type"), string(data)
	})
	if err := client.Patch(context.Background(), "/x", map[string]int{"a": 1}); err != nil {
		t.Fatal(err)
	}
	if method != "PATCH" || kind != "application/merge-patch+json" || body != `{"a":1}` {
		t.Errorf("got %s %s %s", method, kind, body)
	}
}

func node(name string) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name}}
}

func TestFollowNodesSeesWhatChangedMeanwhile(t *testing.T) {
	client := testClient(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			json.NewEncoder(w).Encode(map[string]any{
				"metadata": map[string]any{"resourceVersion": "7"},
				"items":    []any{node("a"), node("b")},
			})
			return
		}
		if version := r.URL.Query().Get("resourceVersion"); version != "7" {
			t.Errorf("watch from %q", version)
		}
		for _, event := range []string{"MODIFIED a", "DELETED b", "ADDED c"} {
			var kind, name string
			fmt.Sscan(event, &kind, &name)
			json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": node(name)})
		}
	})
	var seen []string
	record := func(kind string) func(Node) {
		return func(n Node) { seen = append(seen, kind+" "+n.Metadata.Name) }
	}
	var old Node
	old.Metadata.Name = "old"
	known := map[string]Node{"old": old}
	err := client.FollowNodes(context.Background(), known, record("changed"), record("gone"))
	if !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
	want := []string{"changed a", "changed b", "gone old", "changed a", "gone b", "changed c"}
	if !reflect.DeepEqual(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
	if len(known) != 2 {
		t.Errorf("known: %v", known)
	}
}
