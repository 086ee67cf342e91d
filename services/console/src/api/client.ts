import { apiKey } from "./key";

// An error of the gateway, or a gateway that does not answer (status 0).
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly param: string | null = null,
  ) {
    super(message);
  }
}

function headers(): Record<string, string> {
  const key = apiKey.get();
  return key ? { Authorization: `Bearer ${key}` } : {};
}

async function errorOf(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => "");
  try {
    const { error } = JSON.parse(text);
    return new ApiError(response.status, String(error.message), error.param ?? null);
  } catch {
    return new ApiError(response.status, `The gateway answered ${response.status}.`);
  }
}

async function ask(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, cache: "no-store", credentials: "omit" });
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    throw new ApiError(0, "The gateway does not answer.");
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await ask(path, { headers: headers(), signal })).json();
}

export function post(path: string, body: string, signal?: AbortSignal): Promise<Response> {
  return ask(path, {
    method: "POST",
    headers: { ...headers(), "Content-Type": "application/json" },
    body,
    signal,
  });
}

// State of the manager, such as "pools".
export function getState<T>(what: string, signal?: AbortSignal): Promise<T> {
  return getJson<T>(`/console/api/${what}`, signal);
}
