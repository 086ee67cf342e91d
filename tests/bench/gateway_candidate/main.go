// A gateway in Go that streams completions of token ids and nothing else, to compare the cost of a stream with folio-gateway's.
// It is net/http and grpc-go, with encoding/json for requests and chunks that are written by hand. It has no keys, limits, metrics
// or resumption, so that its cost is a lower bound.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "folio.invalid/candidate/pb"
)

type request struct {
	Model       string   `json:"model"`
	Prompt      []uint32 `json:"prompt"`
	MaxTokens   uint32   `json:"max_tokens"`
	Temperature float32  `json:"temperature"`
	IgnoreEos   bool     `json:"ignore_eos"`
	Stream      bool     `json:"stream"`
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8001", "host:port")
	worker := flag.String("worker", "unix:/run/folio/worker.sock", "target of the worker")
	connections := flag.Int("connections", 8, "connections to the worker")
	flag.Parse()
	clients := make([]pb.InferenceClient, *connections)
	for i := range clients {
		connection, err := grpc.NewClient(*worker, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			log.Fatal(err)
		}
		clients[i] = pb.NewInferenceClient(connection)
	}
	var next atomic.Uint64
	http.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) {
		stream(clients[next.Add(1)%uint64(len(clients))], w, r)
	})
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening address=%s", listener.Addr())
	log.Fatal(http.Serve(listener, nil))
}

func stream(client pb.InferenceClient, w http.ResponseWriter, r *http.Request) {
	var ask request
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || !ask.Stream {
		http.Error(w, "give a request that streams", http.StatusBadRequest)
		return
	}
	call, err := client.Generate(r.Context(), &pb.GenerateRequest{
		Input:     &pb.Input{Kind: &pb.Input_Tokens{Tokens: &pb.TokenIds{Ids: ask.Prompt}}},
		Sampling:  &pb.SamplingParams{Temperature: ask.Temperature},
		MaxTokens: ask.MaxTokens,
		IgnoreEos: ask.IgnoreEos,
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(w)
	head := []byte(`data: {"id":"cmpl-1","object":"text_completion","created":` +
		strconv.FormatInt(time.Now().Unix(), 10) + `,"model":"` + ask.Model + `","choices":[{"index":0,"text":`)
	buffer := make([]byte, 0, 4096)
	for {
		event, err := call.Recv()
		if err != nil {
			return
		}
		switch {
		case event.GetChunk() != nil:
			text, _ := json.Marshal(event.GetChunk().Text)
			buffer = append(append(append(buffer[:0], head...), text...), ",\"logprobs\":null,\"finish_reason\":null}]}\n\n"...)
		case event.GetFinished() != nil:
			buffer = append(buffer[:0], "data: [DONE]\n\n"...)
		default:
			continue
		}
		if _, err := w.Write(buffer); err != nil {
			return
		}
		if err := flusher.Flush(); err != nil {
			return
		}
		if event.GetFinished() != nil {
			return
		}
	}
}
