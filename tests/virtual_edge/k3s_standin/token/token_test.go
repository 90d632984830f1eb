package token

import (
	"strings"
	"testing"
)

const ca = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

func TestSecureFormSurvivesARoundTrip(t *testing.T) {
	parsed, err := Parse(Format([]byte(ca), "server", "pass:word"))
	if err != nil {
		t.Fatal(err)
	}
	if parsed.User != "server" || parsed.Password != "pass:word" || parsed.CAHash != HashCA([]byte(ca)) {
		t.Errorf("got %+v", parsed)
	}
	if err := parsed.CheckCA([]byte(ca)); err != nil {
		t.Error(err)
	}
	if err := parsed.CheckCA([]byte(ca + "\n")); err == nil || !strings.Contains(err.Error(), "does not match") {
		t.Errorf("another CA passed: %v", err)
	}
}

func TestShortFormIsTheBarePassword(t *testing.T) {
	parsed, err := Parse("secret")
	if err != nil || parsed != (Token{Password: "secret"}) {
		t.Errorf("got %+v, %v", parsed, err)
	}
	if err := parsed.CheckCA([]byte(ca)); err != nil {
		t.Errorf("a token without a hash must accept any CA: %v", err)
	}
}

func TestBadTokensAreRefusedWithoutQuotingThem(t *testing.T) {
	hash := HashCA([]byte(ca))
	for text, want := range map[string]string{
		"":                                 "must not be empty",
		"K10" + hash[1:] + "::server:hush": "hash length",
		"K10" + hash + "::hush":            "invalid token format",
		"K10" + hash + "::server:":         "invalid token format",
		"K10hush":                          "invalid token format",
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		} else if strings.Contains(err.Error(), "hush") {
			t.Errorf("the error quotes the token: %v", err)
		}
	}
}

func TestNewPasswordsDiffer(t *testing.T) {
	first, second := NewPassword(), NewPassword()
	if len(first) != 32 || first == second {
		t.Errorf("%q, %q", first, second)
	}
}
