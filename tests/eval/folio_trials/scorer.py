"""A scorer has `prompt(tokens)`, one number per token of a layer's prompt, and `page(tokens)`, the same for a page that
filled in decode, after the prompt and the pages before it. A high number means keep. Numbers of KV heads are averaged,
because a page of the cache holds all heads of a token. A scorer belongs to one layer of one sequence.
"""


class Scorer:
    def page(self, tokens):
        return self.prompt(tokens)
