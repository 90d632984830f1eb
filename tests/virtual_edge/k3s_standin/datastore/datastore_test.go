package datastore

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// gateway plays etcd with one map of keys.
func gateway(t *testing.T) *httptest.Server {
	t.Helper()
	stored := map[string][]byte{}
	mux := http.NewServeMux()
	decode := func(r *http.Request, into any) {
		if err := json.NewDecoder(r.Body).Decode(into); err != nil {
			t.Error(err)
		}
	}
	mux.HandleFunc("/v3/kv/range", func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Key []byte }
		decode(r, &asked)
		answer := map[string]any{}
		if value, present := stored[string(asked.Key)]; present {
			answer["kvs"] = []map[string]any{{"key": asked.Key, "value": value}}
		}
		json.NewEncoder(w).Encode(answer)
	})
	mux.HandleFunc("/v3/kv/put", func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Key, Value []byte }
		decode(r, &asked)
		stored[string(asked.Key)] = asked.Value
		w.Write([]byte("{}"))
	})
	mux.HandleFunc("/v3/kv/txn", func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Success []struct {
				Put struct{ Key, Value []byte } `json:"request_put"`
			}
		}
		decode(r, &asked)
		put := asked.Success[0].Put
		if _, present := stored[string(put.Key)]; present {
			w.Write([]byte("{}")) // false is left out
			return
		}
		stored[string(put.Key)] = put.Value
		w.Write([]byte(`{"succeeded": true}`))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func TestAKeyIsCreatedOnceAndThenReplaced(t *testing.T) {
	server := gateway(t)
	// The first endpoint is down.
	client, err := New(Config{Endpoints: []string{"http://127.0.0.1:1", server.URL + "/"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if value, err := client.Get(ctx, "/k"); err != nil || value != nil {
		t.Fatalf("got %q, %v", value, err)
	}
	if created, err := client.Create(ctx, "/k", []byte("first")); err != nil || !created {
		t.Fatalf("got %v, %v", created, err)
	}
	if created, err := client.Create(ctx, "/k", []byte("second")); err != nil || created {
		t.Errorf("created twice: %v, %v", created, err)
	}
	if value, err := client.Get(ctx, "/k"); err != nil || string(value) != "first" {
		t.Errorf("got %q, %v", value, err)
	}
	if err := client.Put(ctx, "/k", []byte("third")); err != nil {
		t.Fatal(err)
	}
	if value, err := client.Get(ctx, "/k"); err != nil || string(value) != "third" {
		t.Errorf("got %q, %v", value, err)
	}
}

func TestAnErrorNamesTheEndpoint(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client, err := New(Config{Endpoints: []string{server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Get(context.Background(), "/k"); err == nil || !strings.Contains(err.Error(), server.URL) {
		t.Errorf("got %v", err)
	}
}
