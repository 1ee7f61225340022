package config

import (
	"errors"
	"net/url"
)

func (t *Traces) On() bool { return t.Endpoint != "" }

func (t *Traces) URL() (string, error) {
	u, err := url.Parse(t.Endpoint)
	if err != nil {
		return "", checkEndpoint(t.Endpoint)
	}
	return u.JoinPath("v1", "traces").String(), nil
}

// checkEndpoint accepts the values of OTEL_EXPORTER_OTLP_ENDPOINT. A fault does not show the URL, which may hold a misplaced password.
func checkEndpoint(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("is not a URL such as http://127.0.0.1:4318 or https://collector:4318")
	case u.User != nil:
		return errors.New("holds a user or password; give them in OTEL_EXPORTER_OTLP_HEADERS, such as Authorization=Basic%20…")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("is a URL with ? or #; /v1/traces is added to it")
	}
	return nil
}

var endpoint = anything("URL", "`http://` or `https://`, or empty", orEmpty(checkEndpoint))
