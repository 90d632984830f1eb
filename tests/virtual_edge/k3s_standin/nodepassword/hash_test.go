package nodepassword

import (
	"errors"
	"strings"
	"testing"
)

func TestOnlyTheSamePasswordVerifies(t *testing.T) {
	hash, err := Hash("one")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(hash, "$1:") || strings.Contains(hash, "one:") {
		t.Errorf("got %q", hash)
	}
	if err := Verify(hash, "one"); err != nil {
		t.Error(err)
	}
	if err := Verify(hash, "two"); !errors.Is(err, ErrVerify) {
		t.Errorf("got %v", err)
	}
}

func TestABrokenHashIsNoMismatch(t *testing.T) {
	for _, hash := range []string{"", "$1:salt", "$2:a:15:8:1:AA==", "$1:a:99:8:1:AA==", "$1:a:1:8:1:?"} {
		if err := Verify(hash, "one"); err == nil || errors.Is(err, ErrVerify) {
			t.Errorf("%q: got %v", hash, err)
		}
	}
}
