// This example asks a worker one question, keeps at most 256 tokens per layer in the cache, and
// prints the answer as it comes. Run it as
//   folio-example unix:/run/folio/worker.sock "Why is the sky blue?"
#include <iostream>

#include "services/client/client.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: folio-example ADDRESS QUESTION\n";
    return 2;
  }
  auto client = folio::client::Client::Connect(argv[1]);
  if (!client.ok()) {
    std::cerr << client.status() << "\n";
    return 1;
  }
  folio::v1::GenerateRequest request;
  *request.mutable_input() = folio::client::Ask(argv[2]);
  *request.mutable_cache() = folio::client::PagedEviction(256);
  request.set_max_tokens(64);

  auto generation = (*client)->Start(request);
  while (auto event = generation.Next()) {
    if (event->has_chunk()) std::cout << event->chunk().text() << std::flush;
    if (event->has_finished()) {
      std::cout << "\n[" << event->finished().usage().generated_tokens() << " tokens, "
                << event->finished().cache().held_pages() << " pages held]\n";
    }
  }
  if (!generation.status().ok()) std::cerr << generation.status() << "\n";
  return generation.status().ok() ? 0 : 1;
}
