// folioctl sequences and sequence: the table and the facts, with the texts of clients in them.
#include <gtest/gtest.h>

#include <string>

#include "tests/cli/run_cli.h"
#include "tests/client/scripted_server.h"

namespace folio::cli {
namespace {

using ::folio::testing::CliResult;
using ::folio::testing::Folioctl;
using ::folio::testing::ScriptedServer;

void FillSequence(folio::v1::Sequence* sequence, uint64_t id, const std::string& label,
                  const std::string& tenant) {
  sequence->set_sequence_id(id);
  sequence->set_worker_id("w1");
  sequence->set_label(label);
  sequence->set_tenant(tenant);
  sequence->set_state(folio::v1::SEQUENCE_STATE_DECODE);
  sequence->mutable_cache()->mutable_policy()->mutable_full();
  sequence->set_prompt_tokens(1000);
  sequence->set_logical_length(1010);
  sequence->set_resident_tokens(1010);
  sequence->set_held_pages(1890);
  sequence->set_held_bytes(23224320);
  sequence->set_age_ms(1500);
}

// Names of clients stay on their line, and do not steer the terminal. One without a name is not
// one that is named "-".
TEST(Sequences, NameTheirTenants) {
  ScriptedServer server;
  FillSequence(server.script.sequences.add_sequences(), 7, "chat", "team-7");
  FillSequence(server.script.sequences.add_sequences(), 8, "", "");
  FillSequence(server.script.sequences.add_sequences(), 9, "a\nb", "-\x1b[2J\"");
  const CliResult result = Folioctl({"sequences", "--address", server.address()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(
      result.out,
      R"(sequence  label   tenant        worker  state   policy  budget  prompt  length  resident  pages        KV  evicted     age
       7  "chat"  "team-7"      w1      decode  full         -   1,000   1,010     1,010  1,890  22.1 MiB        0  1.50 s
       8  ""      -             w1      decode  full         -   1,000   1,010     1,010  1,890  22.1 MiB        0  1.50 s
       9  "a\nb"  "-\x1b[2J\""  w1      decode  full         -   1,000   1,010     1,010  1,890  22.1 MiB        0  1.50 s
)");
}

TEST(Sequence, NamesItsTenant) {
  ScriptedServer server;
  FillSequence(server.script.sequence.mutable_sequence(), 7, "chat", "team\t7");
  const CliResult named = Folioctl({"sequence", "7", "--address", server.address()});
  EXPECT_EQ(named.code, 0) << named.err;
  EXPECT_NE(named.out.find("\ntenant    \"team\\t7\"\n"), std::string::npos) << named.out;
  server.script.sequence.mutable_sequence()->clear_tenant();
  const CliResult unnamed = Folioctl({"sequence", "7", "--address", server.address()});
  EXPECT_NE(unnamed.out.find("\ntenant    -\n"), std::string::npos) << unnamed.out;
}

}  // namespace
}  // namespace folio::cli
