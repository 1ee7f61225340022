package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/policy"
)

// assets are all files of the page. Nothing is loaded from elsewhere.
//
//go:embed assets
var assets embed.FS

// policyOfContent allows the page its own files only: no inline code or style, nothing from elsewhere, no frame around it.
const policyOfContent = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'"

// body is served content, plain and compressed. Neither changes.
type body struct{ plain, zipped []byte }

func newBody(v any) body {
	plain, err := json.Marshal(v)
	if err != nil { // NaN or infinity
		plain = []byte(`{"form":0}`)
	}
	return zip(plain)
}

func zip(plain []byte) body {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // fails only for an unknown level
	_, _ = w.Write(plain)                           // never fails
	_ = w.Close()
	return body{plain, b.Bytes()}
}

func (b body) serve(w http.ResponseWriter, r *http.Request, kind string) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", policyOfContent)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Vary", "Accept-Encoding")
	out := b.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		out = b.zipped
	}
	h.Set("Content-Length", strconv.Itoa(len(out)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(out)
	}
}

var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".LICENSE": "text/plain; charset=utf-8",
}

// Handler serves the page at /, and its files below /page/. It only reads.
func (b *Dashboard) Handler() http.Handler {
	mux := http.NewServeMux()
	data := func(of func() body) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-store")
			of().serve(w, r, "application/json")
		}
	}
	mux.HandleFunc("GET /page/live.json", data(b.Live))
	mux.HandleFunc("GET /page/history.json", data(b.History))
	mux.HandleFunc("GET /page/find.json", b.serveFind)
	files, _ := assets.ReadDir("assets") // embedded
	for _, f := range files {
		content, _ := assets.ReadFile("assets/" + f.Name())
		if f.Name() == "page.css" {
			for _, k := range policy.Specs {
				content = append(content, ":root { --"+k.Name+": "+k.Colour+"; }\n"...)
			}
		}
		served, sum := zip(content), sha256.Sum256(content)
		tag, at := `"`+hex.EncodeToString(sum[:8])+`"`, "GET /page/"+f.Name()
		if f.Name() == "index.html" {
			at = "GET /{$}"
		}
		mux.HandleFunc(at, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-cache")
			w.Header().Set("ETag", tag)
			if r.Header.Get("If-None-Match") == tag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			served.serve(w, r, kinds[path.Ext(f.Name())])
		})
	}
	return mux
}
